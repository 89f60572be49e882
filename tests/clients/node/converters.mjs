// The AI SDK's providers: node converters.mjs PROVIDER SCHEMAS; what each schema became, as
// converters/__main__.py has it. The model is asked for real, and its address is a function here.
import { readFileSync } from "node:fs";
import { generateText, jsonSchema, tool } from "ai";

const [provider, path] = process.argv.slice(2);
let sent;
const fetch = async (url, request) => {
  sent = JSON.parse(request.body);
  throw new Error("only the request was wanted");
};

async function model() {
  if (provider === "ai_sdk_openai") {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return [createOpenAI({ apiKey: "none", fetch })("gpt-5"), true];
  }
  if (provider === "ai_sdk_anthropic") {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    return [createAnthropic({ apiKey: "none", fetch })("claude-sonnet-4-5"), true];
  }
  const { createGoogle, createGoogleGenerativeAI } = await import("@ai-sdk/google");
  const create = createGoogle ?? createGoogleGenerativeAI;
  return [create({ apiKey: "none", fetch })("gemini-2.5-flash"), false];
}

// OpenAPI's names of types and its nullable, as JSON Schema has them.
const schemaOf = (body) =>
  body.tools[0].parameters ??
  body.tools[0].input_schema ??
  body.tools[0].functionDeclarations[0].parametersJsonSchema ??
  body.tools[0].functionDeclarations[0].parameters ?? { type: "object", properties: {} };

const [languageModel, strict] = await model();
const answers = [];
for (const each of JSON.parse(readFileSync(path, "utf8"))) {
  const answer = { name: each.name, warned: [] };
  sent = undefined;
  const tools = {
    // As @ai-sdk/mcp makes it of a server's tool.
    [each.name]: tool({
      description: each.description,
      strict,
      inputSchema: jsonSchema({
        ...each.inputSchema,
        properties: each.inputSchema.properties ?? {},
        additionalProperties: false,
      }),
    }),
  };
  try {
    await generateText({ model: languageModel, tools, prompt: "?", maxRetries: 0 });
  } catch (error) {
    if (!sent) answer.refused = `${error.name}: ${error.message}`.slice(0, 300);
  }
  if (sent) answer.made = schemaOf(sent);
  answers.push(answer);
}
console.log(JSON.stringify(answers));
