// The clients that are npm packages: node clients.mjs CLIENT, a plan on standard input, what was
// seen on standard output, as drivers/__main__.py has it.
import { readFileSync } from "node:fs";

const plan = JSON.parse(readFileSync(0, "utf8"));
const steps = {
  called: ["articles_list", { page_size: 2 }],
  wrong: ["articles_list", { page: 0, order: "best" }],
  image: ["media_show", { media: plan.media }],
  wait: ["articles_delete", { slug: plan.slug }],
};
const asked = [];
const agree = (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { confirm: true } };
};
const bearer = (token) => ({ Authorization: `Bearer ${token}` });
const shown = (result) => ({
  error: Boolean(result.isError),
  kinds: result.content.map((block) => block.type),
  text: result.content.map((block) => block.text ?? "").join(" "),
});

async function official(mode, token) {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client(
    { name: "gate", version: "1" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
  );
  client.setRequestHandler("elicitation/create", agree);
  const options = { requestInit: { headers: bearer(token) } };
  await client.connect(new StreamableHTTPClientTransport(new URL(plan.url), options));
  return {
    list: async () => (await client.listTools()).tools.map((tool) => tool.name),
    call: async (name, args) => shown(await client.callTool({ name, arguments: args })),
    close: () => client.close(),
  };
}

async function official_1(token) {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await import(
    "@modelcontextprotocol/sdk/client/streamableHttp.js"
  );
  const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
  const capabilities = { elicitation: {} };
  const client = new Client({ name: "gate", version: "1" }, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, agree);
  const options = { requestInit: { headers: bearer(token) } };
  await client.connect(new StreamableHTTPClientTransport(new URL(plan.url), options));
  return {
    list: async () => (await client.listTools()).tools.map((tool) => tool.name),
    call: async (name, args) => shown(await client.callTool({ name, arguments: args })),
    close: () => client.close(),
  };
}

async function ai_sdk(token) {
  const { createMCPClient, ElicitationRequestSchema } = await import("@ai-sdk/mcp");
  const client = await createMCPClient({
    transport: { type: "http", url: plan.url, headers: bearer(token) },
    capabilities: { elicitation: {} },
  });
  client.onElicitationRequest(ElicitationRequestSchema, agree);
  const tools = await client.tools();
  return {
    list: async () => Object.keys(tools),
    call: async (name, args) =>
      shown(await tools[name].execute(args, { toolCallId: "1", messages: [] })),
    close: () => client.close(),
  };
}

const clients = {
  official: (token) => official("auto", token),
  official_legacy: (token) => official("legacy", token),
  official_1,
  ai_sdk,
};

const seen = async (call) => {
  try {
    return await call();
  } catch (error) {
    return { error: true, raised: error.name, text: String(error.message) };
  }
};

const connect = clients[process.argv[2]];
const answer = {};
const client = await connect(plan.token);
answer.listed = (await client.list()).sort();
for (const [step, [tool, args]] of Object.entries(steps)) {
  answer[step] = await seen(() => client.call(tool, args));
}
answer.asked = [...asked];
await client.close();
answer.bad = await seen(async () => {
  const refused = await connect(plan.bad);
  return { error: false, text: `${(await refused.list()).length} tools were listed` };
});
console.log(`\n${JSON.stringify(answer)}`);
process.exit(0);
