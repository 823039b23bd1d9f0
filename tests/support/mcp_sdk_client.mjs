// The official MCP client against a server: node mcp_sdk_client.mjs COMMAND ARGUMENT... Prints what it saw as JSON.
// Lies beside the node_modules that it is run with.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "cultivar-test", version: "1.0.0" });
const transport = new StdioClientTransport({ command, args, stderr: "inherit" });
await client.connect(transport);

const seen = {
  server: client.getServerVersion(),
  instructions: client.getInstructions(),
  tools: (await client.listTools()).tools.map((tool) => tool.name),
};
const call = (name, given, options) => client.callTool({ name, arguments: given }, undefined, options);
const text = (result) => result.content[0].text;

seen.lineage = text(await call("list_lineage", {}));
const mistaken = await call("check", { varient: "plain" });
seen.mistake = [mistaken.isError, text(mistaken)];
seen.unknown = await call("shell", { command: "id" }).then((result) => text(result), (error) => error.message);

const steps = [];
const checked = call("check", { variant: "plain" }, { onprogress: (step) => steps.push(step), resetTimeoutOnProgress: true });
await client.ping();
seen.pingedBeforeChecked = seen.check === undefined;
seen.check = text(await checked);
seen.steps = steps.map((step) => step.progress);

const giveUp = new AbortController();
const benchmark = call("benchmark", { variant: "blocked" }, { signal: giveUp.signal, onprogress: () => giveUp.abort("enough") });
seen.cancelled = await benchmark.then(() => "it was answered", (error) => `${error.message ?? error}`);
seen.afterwards = text(await call("check", { variant: "plain", up_to: "smoke" }));

const pid = transport.pid;
await client.close();
try {
  process.kill(pid, 0);
  seen.left = true;
} catch {
  seen.left = false;
}
console.log(JSON.stringify(seen));
