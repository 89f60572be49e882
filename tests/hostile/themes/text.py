"""The body as JSON text (RFC 8259): bytes, depth, numbers, members, characters."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import argument, body, edit, rewritten
from tests.hostile.wanted import (
    ECHOED,
    NOT_A_MESSAGE,
    PARSE,
    WRONG_ARGUMENTS,
    Answered,
    Either,
)

DEEP = 200_000
# The message, its params and the arguments are three of 64 levels.
LEVELS = 61

THEME = Theme("JSON text")
THEME.add(
    PARSE,
    {
        f"the body {text[:16]!r}": body(text)
        for text in (
            *(" ", "\n\r\t", "{", "}", "[", "]", '"', ",", ":", "{]", "[}", "null null", "{}{}"),
            *("tru", "TRUE", "nil", "undefined", "NaN", "-Infinity", "+0", "00", "0x0", "1e", "-"),
            *("<?xml version='1.0'?><methodCall/>", "jsonrpc=2.0&id=1", "--x\r\n", "data: {}\n\n"),
            *("\0", "\0{}", "{}\0", "\x1e{}", "// a comment\n{}", "{}\n# a comment", "{'id': 1}"),
            *(
                "\udcff",
                "\udcc0\udc80",
                "\udced\udca0\udc80",
                "\udcf5\udc80\udc80\udc80",
                "{\udce9}",
            ),
            *("\ufeff{}", "\u00a0{}", "\u2028{}", '{"id":1,}', "[1,,2]", "{,}", '{"a" 1}'),
        )
    },
)
THEME.add(
    PARSE,
    {
        f"the value {text[:16]!r}": argument(text)
        for text in (
            *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1.e1", ".1", "1.", "01", "--1"),
            *("1_000", "0b1", "'hi'", "`hi`", '"hi', 'hi"', '"\\x"', '"\\u12g4"', '"\\u"', '"\\'),
            *('"a\nb"', '"a\x00b"', '"a\x1fb"', "[1,]", "[,1]", '{"a":1,}', "{a:1}", '{"a"}'),
            *("True", "None", "\u0661", "\uff11", '"\udc80"', '"\udce2(\udca1"', '"\udcf0"'),
            *("[1 2]", "/* */1", "1//", "!0", "=1", '"a" "b"', '"a"+"b"', "{}[]", ""),
        )
    },
)
THEME.add(
    PARSE,
    {
        "a number of 310 digits": argument("1" * 310),
        "a number of 5,000 digits": argument("7" * 5000),
        "a number of 5,000 digits below zero": argument("-" + "7" * 5000),
        "a number of half a megabyte": argument("9" * 2**19),
        "an exponent of 5,000 digits": argument("1e" + "9" * 5000),
        "one level too many, of lists": argument("[" * (LEVELS + 1) + "]" * (LEVELS + 1)),
        "one level too many, of objects": argument(
            '{"a":' * (LEVELS + 1) + "1" + "}" * (LEVELS + 1)
        ),
        "200,000 levels of lists": argument("[" * DEEP + "]" * DEEP),
        "100,000 levels of objects": argument('{"a":' * 100_000 + "1" + "}" * 100_000),
        "lists that never end": body("[" * 2**20),
        "objects that never end": body('{"a":' * 200_000),
        "lists and objects that never end": body('[{"":' * 200_000),
        "lists after a text of brackets": body('["' + "[" * 1000 + '",' + "[" * 1000),
        "a text that never ends": body('"' + "x" * 10**6),
        "escapes that never end": body('"' + "\\" * 10**6),
        "half a million commas": body("[" + "," * 500_000 + "]"),
        "brackets that only close": body("]" * 500_000),
    },
)
THEME.add(
    PARSE,
    {
        f"the encoding {name}": rewritten(lambda good, name=name: good.decode().encode(name))
        for name in (
            "utf-16",
            "utf-16-le",
            "utf-16-be",
            "utf-32",
            "utf-32-le",
            "utf-8-sig",
            "utf-7",
        )
        if name != "utf-7"
    },
)
THEME.add(
    PARSE,
    {
        "bytes of Latin-1": rewritten(lambda good: good.replace(b'"hi"', b'"\xe9"')),
        "another message behind it": rewritten(lambda good: good + good),
        "a line, and another message": rewritten(lambda good: good + b"\n" + good),
        "a brace behind it": rewritten(lambda good: good + b"}"),
        "a NUL behind it": rewritten(lambda good: good + b"\0"),
        "a word before it": rewritten(lambda good: b"while(1);" + good),
        "the message as a text": rewritten(lambda good: b"'" + good + b"'"),
        "the message backwards": rewritten(lambda good: good[::-1]),
        "half of its bytes set": rewritten(lambda good: bytes(each | 0x80 for each in good)),
    },
)
THEME.add(
    NOT_A_MESSAGE,
    {
        "id twice": edit('"id":1', '"id":1,"id":1'),
        "id twice, once escaped": edit('"id":1', '"id":1,"\\u0069d":2'),
        "jsonrpc twice": edit('"jsonrpc":"2.0"', '"jsonrpc":"2.0","jsonrpc":"2.0"'),
        "method twice": edit('"method":', '"method":"ping","method":'),
        "params twice": edit('"params":', '"params":[],"params":'),
        "a tool's name twice": edit('"name":"echo"', '"name":"forbidden","name":"echo"'),
        "arguments twice": edit('"arguments":', '"arguments":{},"arguments":'),
        "an argument twice": edit('"text":', '"text":"a","text":'),
        "a member twice, deep inside": argument('[[{"a":[{"b":{"c":1,"c":1}}]}]]'),
        "an empty name twice": argument('{"":1,"":2}'),
        "a member a thousand times": argument("{" + ",".join(['"a":1'] * 1000) + "}"),
        "half a character": argument('"\\ud800"'),
        "the other half": argument('"\\udfff"'),
        "two halves in the wrong order": argument('"\\ude00\\ud83d"'),
        "half a character and an escape": argument('"\\ud83d\\\\ude00"'),
        "half a character as a name": argument('{"\\udabc":1}'),
        "half a character in the method": edit('"tools/call"', '"tools/call\\ud800"'),
        "half a character in the id": edit('"id":1', '"id":"\\udc00"'),
        "half a character, deep inside": argument('[[[["x\\ud801y"]]]]'),
    },
)
THEME.add(
    WRONG_ARGUMENTS,
    {
        "as many levels as there may be": argument("[" * LEVELS + "]" * LEVELS),
        "a number of 309 digits": argument("1" * 309),
        "the largest float": argument("1.7976931348623157e308"),
        "a number that is nearly none": argument("1e-999"),
        "zero below zero": argument("-0"),
        "a list of 200,000 numbers": argument("[" + "1," * 200_000 + "1]"),
        "an object of 20,000 members": argument(
            "{" + ",".join(f'"k{each}":0' for each in range(20_000)) + "}"
        ),
    },
)
THEME.add(
    ECHOED,
    {
        "blanks around everything": rewritten(
            lambda good: b" \r\n\t" + good.replace(b":{", b" : \n{") + b"\n\n"
        ),
        "names of members in escapes": rewritten(
            lambda good: good.replace(b'"id"', b'"\\u0069\\u0064"')
        ),
        "a text in escapes": argument('"\\u0068\\u0069"'),
    },
)
THEME.add(
    Answered(text="\N{PILE OF POO}"),
    {
        "a character of two halves": argument('"\\ud83d\\udca9"'),
        "a character of four bytes": argument('"\N{PILE OF POO}"'),
    },
)
THEME.add(
    Answered(most=4 * 2**20),
    {
        "900,000 letters": argument('"' + "x" * 900_000 + '"'),
        "200,000 quotation marks": argument('"' + '\\"' * 200_000 + '"'),
        "150,000 characters of three bytes": argument('"' + "\u20ac" * 150_000 + '"'),
        "brackets in a text": argument('"' + "[{" * 100_000 + '"'),
        "every control character": argument(
            '"' + "".join(f"\\u{each:04x}" for each in range(1, 32)) + '"'
        ),
        "separators of lines": argument('"\u2028\u2029\u0085"'),
        "characters without a meaning": argument('"\ufffe\uffff\ufdd0"'),
        "letters from right to left": argument('"\u202e\u2066abc\u2069"'),
        "a text that looks like code": argument('"</script>{{7*7}}${jndi:ldap://x}%s%n"'),
        "marks over a letter": argument('"a' + "\u0301" * 10_000 + '"'),
    },
)
# A database may be unable to store it: some sites take it, others report a wrong value.
THEME.add(
    Either((Answered(), WRONG_ARGUMENTS)),
    {"a NUL in a text": argument('"a\\u0000b"')},
)
