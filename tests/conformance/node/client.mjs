// The official TypeScript client: calls a tool over HTTP or stdio and prints the outcome as JSON.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const { mode, url, headers, command, args, env, name, given } = JSON.parse(process.argv[2]);
const transport = url
  ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
  : new StdioClientTransport({ command, args, env, stderr: "ignore" });
const options = mode === "legacy" ? {} : { versionNegotiation: { mode } };
const client = new Client({ name: "conformance", version: "1" }, options);
await client.connect(transport);
const { tools } = await client.listTools();
const progress = [];
const result = await client.callTool(
  { name, arguments: given },
  { onprogress: (each) => progress.push(each.progress) },
);
const revision = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
console.log(JSON.stringify({ revision, tools: tools.length, progress, result }));
await client.close();
