// The official client for TypeScript, of both versions: node results.mjs CLIENT, an address and a
// token on standard input; on standard output how many tools were called, and what it threw. It
// validates each result by the output schema, and asserts formats.
import { readFileSync } from "node:fs";

const plan = JSON.parse(readFileSync(0, "utf8"));
const requestInit = { headers: { Authorization: `Bearer ${plan.token}` } };

const clients = {
  official: async () => {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const versionNegotiation = { mode: "auto" };
    const client = new Client({ name: "gate", version: "1" }, { versionNegotiation });
    await client.connect(new StreamableHTTPClientTransport(new URL(plan.url), { requestInit }));
    return client;
  },
  official_1: async () => {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import(
      "@modelcontextprotocol/sdk/client/streamableHttp.js"
    );
    const client = new Client({ name: "gate", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(plan.url), { requestInit }));
    return client;
  },
};

const client = await clients[process.argv[2]]();
const { tools } = await client.listTools();
// The newsroom has tools of its own beside them.
const given = tools.filter((tool) => tool.name.startsWith("result_"));
const wrong = [];
for (const { name } of given) {
  try {
    const result = await client.callTool({ name, arguments: {} });
    if (result.isError) wrong.push([name, result.content[0].text]);
  } catch (error) {
    wrong.push([name, `${error.code}: ${error.message}`]);
  }
}
await client.close();
console.log(JSON.stringify({ called: given.length, wrong }));
