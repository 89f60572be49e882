// The clients that are npm packages: node clients.mjs CLIENT, a plan on standard input, what was
// seen on standard output, as drivers/__main__.py has it.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { promisify } from "node:util";

const plan = JSON.parse(readFileSync(0, "utf8"));
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

const connected = async (client, question, Transport, token) => {
  client.setRequestHandler(question, agree);
  await client.connect(new Transport(new URL(plan.url), { requestInit: { headers: bearer(token) } }));
  return {
    list: async () => (await client.listTools()).tools.map((tool) => tool.name),
    call: async (name, args) => shown(await client.callTool({ name, arguments: args })),
    close: () => client.close(),
  };
};

async function official(mode, token) {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client(
    { name: "gate", version: "1" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
  );
  return connected(client, "elicitation/create", StreamableHTTPClientTransport, token);
}

async function official_1(token) {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await import(
    "@modelcontextprotocol/sdk/client/streamableHttp.js"
  );
  const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
  const client = new Client({ name: "gate", version: "1" }, { capabilities: { elicitation: {} } });
  return connected(client, ElicitRequestSchema, StreamableHTTPClientTransport, token);
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

// The MCP Client Tool as n8n's agents use it: its node supplies the tools, and is executed for each
// call, both in n8n's own contexts. Where n8n would ask its database for the credential, it gets it.
async function n8n(token) {
  const require = createRequire(import.meta.url);
  const { ExecuteContext, SupplyDataContext } = require("n8n-core");
  const { Workflow } = require("n8n-workflow");
  const folder = dirname(require.resolve("@n8n/n8n-nodes-langchain/package.json"));
  const { McpClientTool } = require(`${folder}/dist/nodes/mcp/McpClientTool/McpClientTool.node.js`);
  const type = new McpClientTool();
  const node = {
    id: "1",
    name: "newsroom",
    type: "@n8n/n8n-nodes-langchain.mcpClientTool",
    typeVersion: type.description.defaultVersion,
    position: [0, 0],
    parameters: { endpointUrl: plan.url, authentication: "bearerAuth" },
    credentials: { httpBearerAuth: { id: "1", name: "newsroom" } },
  };
  const nodeTypes = { getByName: () => type, getByNameAndVersion: () => type };
  const workflow = new Workflow({ nodes: [node], connections: {}, active: false, nodeTypes });
  const credentialsHelper = {
    isCredentialUsableByNode: () => true,
    getDecrypted: async () => ({ token }),
  };
  const given = [workflow, node, { credentialsHelper }, "cli", { resultData: { runData: {} } }, 0];
  return {
    list: async () => {
      const context = new SupplyDataContext(...given, [], {}, "ai_tool", { node, data: {} }, []);
      const { response, closeFunction } = await type.supplyData.call(context, 0);
      await closeFunction();
      return response.tools.map((tool) => tool.name);
    },
    call: async (name, args) => {
      const items = [{ json: { tool: `newsroom_${name}`, ...args } }];
      const data = { main: [items] };
      const context = new ExecuteContext(...given, items, data, { node, data }, []);
      const [[{ json }]] = await type.execute.call(context);
      return shown({ content: json.response });
    },
    close: () => {},
  };
}

const clients = {
  official: (token) => official("auto", token),
  official_legacy: (token) => official("legacy", token),
  official_1,
  ai_sdk,
  n8n,
};

const seen = async (call) => {
  try {
    return await call();
  } catch (error) {
    return { error: true, raised: error.name, text: String(error.message) };
  }
};

const approved = async () => {
  const [program, ...args] = plan.approval;
  return promisify(execFile)(program, args).then(() => true, () => false);
};

const connect = clients[process.argv[2]];
const answer = {};
const client = await connect(plan.token);
answer.listed = (await client.list()).sort();
for (const [step, call] of Object.entries(plan.steps)) {
  answer[step] = await seen(() => client.call(...call));
}
if (await approved()) {
  answer.repeated = await seen(() => client.call(...plan.steps.wait));
}
answer.asked = [...asked];
await client.close();
answer.bad = await seen(async () => {
  const refused = await connect(plan.bad);
  return { error: false, text: `${(await refused.list()).length} tools were listed` };
});
console.log(`\n${JSON.stringify(answer)}`);
process.exit(0);
