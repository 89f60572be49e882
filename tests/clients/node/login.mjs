// The official TypeScript client with nothing but an address: node login.mjs, a plan on standard
// input, what was seen on standard output. Its user's browser is the part below.
import { readFileSync } from "node:fs";
import {
  Client,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";

const plan = JSON.parse(readFileSync(0, "utf8"));
const cookies = new Map();

async function fetched(url, options = {}) {
  const Cookie = [...cookies].map((pair) => pair.join("=")).join("; ");
  const headers = { Cookie, Origin: new URL(url).origin };
  const response = await fetch(url, { redirect: "manual", headers, ...options });
  for (const line of response.headers.getSetCookie()) {
    const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
    cookies.set(name, value);
  }
  return response;
}

const meant = (text) =>
  text.replace(/&(quot|#x27|lt|gt|amp);/g, (_, name) => ({ quot: '"', "#x27": "'", lt: "<", gt: ">", amp: "&" })[name]);

// What the form of the login or of the consent page sends.
function filled(html) {
  const form = html.match(/<form[^>]*class="(login|mcp-decision)"[^>]*>(.*?)<\/form>/s);
  if (!form) throw new Error(`no form to fill in: ${html.slice(0, 1000)}`);
  const fields = new URLSearchParams();
  for (const [tag] of form[2].matchAll(/<input[^>]*>/g)) {
    const [, name] = tag.match(/ name="([^"]*)"/);
    fields.set(name, plan[name] ?? meant(tag.match(/ value="([^"]*)"/)?.[1] ?? ""));
  }
  if (form[1] === "mcp-decision") fields.set("allow", "true");
  return fields;
}

// Follow an address as a browser does, until the site sends the user away.
async function visited(url) {
  const { host } = new URL(url);
  let response = await fetched(url);
  for (let step = 0; step < 10; step += 1) {
    const next = response.headers.get("location");
    if (next) {
      url = new URL(next, url).href;
      if (new URL(url).host !== host) return new URL(url);
      response = await fetched(url);
    } else {
      response = await fetched(url, { method: "POST", body: filled(await response.text()) });
    }
  }
  throw new Error(`went round in circles: ${url}`);
}

const kept = {};
const provider = {
  redirectUrl: "http://localhost:45099/callback",
  clientMetadataUrl: plan.document,
  clientMetadata: {
    client_name: "TypeScript",
    redirect_uris: ["http://localhost:45099/callback"],
    token_endpoint_auth_method: "none",
  },
  state: () => (kept.state = crypto.randomUUID()),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => (kept.tokens = tokens),
  redirectToAuthorization: (url) => (kept.asked = [...(kept.asked ?? []), url]),
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
};

const transport = () => new StreamableHTTPClientTransport(new URL(plan.url), { authProvider: provider });
const error = async (promise) => promise.then(() => "no error", (raised) => raised.name);

// Have the user log in and agree; an answer with another issuer is refused before.
async function finish(through) {
  const { searchParams } = await visited(kept.asked.at(-1).href);
  if (searchParams.get("state") !== kept.state) throw new Error("the state is another one");
  const foreign = new URLSearchParams(searchParams);
  foreign.set("iss", "https://evil.example");
  const missing = new URLSearchParams(searchParams);
  missing.delete("iss");
  answer.refused = [await error(through.finishAuth(foreign)), await error(through.finishAuth(missing))];
  await through.finishAuth(searchParams);
}

const answer = {};
const make = () =>
  new Client({ name: "login", version: "1" }, { versionNegotiation: { mode: plan.mode } });
let client = make();
const first = transport();
try {
  await client.connect(first);
  throw new Error("connected without a login");
} catch (raised) {
  if (!(raised instanceof UnauthorizedError)) throw raised;
}
await finish(first);
client = make();
const second = transport();
await client.connect(second);
answer.me = (await client.callTool({ name: "desk_whoami", arguments: {} })).structuredContent;
const step = { name: "articles_submit", arguments: { slug: plan.slug } };
try {
  await client.callTool(step);
  throw new Error("called without the scope");
} catch (raised) {
  if (!(raised instanceof UnauthorizedError)) throw raised;
}
await finish(second);
answer.status = (await client.callTool(step)).structuredContent.status;
answer.scopes = kept.asked.map((url) => url.searchParams.get("scope"));
answer.resource = kept.asked[0].searchParams.get("resource");
answer.client = kept.client.client_id;
console.log(`\n${JSON.stringify(answer)}`);
process.exit(0);
