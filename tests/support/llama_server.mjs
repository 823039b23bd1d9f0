// A real language model behind Chat Completions: llama.cpp, from the npm package @node-llama-cpp/linux-x64, which
// brings the library and its binding but no server. Streams, counts tokens with the model's own tokenizer, stops
// when the client hangs up, and refuses what its context cannot hold in the words of llama.cpp's own server.
//
//   node llama_server.mjs PACKAGE_FOLDER MODEL.gguf
//
// Prints {"port": N} once it listens, on this machine alone. GET /seen: what it has done, for the test to compare.
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const [folder, modelFile] = process.argv.slice(2);
const SEQUENCES = 8, CONTEXT = 1024, BATCH = 512;

const binaries = path.join(folder, "bins", "linux-x64");
const llama = createRequire(import.meta.url)(path.join(binaries, "llama-addon.node"));
llama.markLoaded();
llama.setLogger(() => {});
llama.loadBackends();
if (llama.getGpuType() == null) llama.loadBackends(binaries);
await llama.init();
const model = new llama.AddonModel(modelFile, { addonExports: llama, gpuLayers: 0 });
if (!await model.init()) throw new Error(`llama.cpp cannot load ${modelFile}`);
// One thread: so small a model is a thousand times slower with more.
const context = new llama.AddonContext(model, {
  contextSize: CONTEXT * SEQUENCES, sequences: SEQUENCES, batchSize: BATCH, threads: 1,
});
if (!await context.init()) throw new Error("llama.cpp makes no context");

const seen = { requests: 0, finished: 0, hung_up: 0, refused: 0, running: 0, most_running: 0,
               prompt_tokens: 0, completion_tokens: 0 };
const free = Array.from({ length: SEQUENCES }, (_, i) => i);
const waiting = [];
const sequence = async () => free.length ? free.pop() : new Promise((take) => waiting.push(take));
const giveBack = (id) => {
  context.disposeSequence(id);
  if (waiting.length) waiting.shift()(id); else free.push(id);
};

// One batch at a time; requests take turns token by token.
let turn = Promise.resolve();
const alone = (work) => {
  const mine = turn.then(work);
  turn = mine.catch(() => {});
  return mine;
};

// Of these tokens at this place of a sequence: the one that follows.
const next = (id, at, tokens, sampler) => alone(async () => {
  context.initBatch(tokens.length);
  const [index] = context.addToBatch(id, at, Uint32Array.from(tokens), Uint32Array.of(tokens.length - 1));
  await context.decodeBatch();
  return context.sampleToken(index, sampler);
});

// Pieces of text as they come; ends with the reason.
async function* tokensOf(prompt, most, body, gone) {
  const id = await sequence();
  const sampler = new llama.AddonSampler(model);
  sampler.applyConfig({ temperature: body.temperature ?? 0.8, topP: body.top_p ?? 0.95, topK: 40,
                        seed: body.seed ?? (Date.now() ^ id) >>> 0 });
  seen.most_running = Math.max(seen.most_running, ++seen.running);
  try {
    let token = -1, at = 0;
    for (; at < prompt.length && !gone(); at += BATCH) {
      const part = prompt.slice(at, at + BATCH);
      token = await next(id, at, part, sampler);
    }
    at = prompt.length;
    const made = [];
    for (let told = ""; !gone();) {
      if (token < 0 || model.isEogToken(token)) return "stop";
      made.push(token);
      const text = model.detokenize(Uint32Array.from(made));
      const piece = text.endsWith("\ufffd") ? "" : text.slice(told.length);  // not in the middle of a character
      told += piece;
      yield piece;
      if (made.length >= most) return "length";
      token = await next(id, at++, [token], sampler);
    }
    return "gone";
  } finally {
    --seen.running;
    sampler.dispose();
    giveBack(id);
  }
}

const textOf = (content) =>
  typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");

function answer(response, status, value) {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(value));
}
function refuse(response, type, message) {
  ++seen.refused;
  answer(response, 400, { error: { code: 400, type, message } });
}

async function complete(body, response) {
  ++seen.requests;
  const said = body.messages.map((m) => `${m.role}: ${textOf(m.content)}\n`).join("") + "assistant:";
  let prompt = [model.tokenBos(), ...model.tokenize(said, false)];
  const keep = body.truncate_prompt_tokens;  // as vLLM calls it: the last so many
  if (keep) prompt = prompt.slice(-keep);
  if (prompt.length >= CONTEXT)
    return refuse(response, "exceed_context_size_error",
                  `the request exceeds the available context size: ${prompt.length} tokens of ${CONTEXT}`);
  const most = Math.min(body.max_tokens ?? Infinity, CONTEXT - prompt.length);
  let gone = false;
  response.on("close", () => { gone = !response.writableFinished; });

  const about = { id: `chatcmpl-${seen.requests}`, object: "chat.completion.chunk", model: "stories260K" };
  const send = (more) => response.write(`data: ${JSON.stringify({ ...about, ...more })}\n\n`);
  const choice = (delta, reason) => ({ choices: [{ index: 0, delta, finish_reason: reason }] });
  if (body.stream) {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    send(choice({ role: "assistant", content: null }, null));
  }
  const pieces = tokensOf(prompt, most, body, () => gone);
  let text = "", made = 0, reason = null;
  while (reason === null) {
    const { value, done } = await pieces.next();
    if (done) {
      reason = value;
    } else {
      ++made;
      text += value;
      if (body.stream && value) send(choice({ content: value }, null));
    }
  }
  if (reason === "gone") return void ++seen.hung_up;
  const usage = { prompt_tokens: prompt.length, completion_tokens: made, total_tokens: prompt.length + made };
  ++seen.finished;
  seen.prompt_tokens += prompt.length;
  seen.completion_tokens += made;
  if (!body.stream)
    return answer(response, 200, {
      ...about, object: "chat.completion", usage,
      choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: reason }],
    });
  send(choice({}, reason));
  if (body.stream_options?.include_usage) send({ choices: [], usage });
  response.end("data: [DONE]\n\n");
}

const server = http.createServer((request, response) => {
  if (request.method === "GET" && request.url === "/seen") return answer(response, 200, seen);
  if (request.method !== "POST" || request.url !== "/v1/chat/completions")
    return answer(response, 404, { error: { message: "only /v1/chat/completions is served" } });
  let text = "";
  request.setEncoding("utf8").on("data", (part) => { text += part; }).on("end", () => {
    let body = null;
    try { body = JSON.parse(text); } catch { /* refused below */ }
    if (!Array.isArray(body?.messages)) return refuse(response, "invalid_request_error", "no messages");
    complete(body, response).catch((error) => {
      if (response.headersSent) response.destroy();
      else answer(response, 500, { error: { type: "server_error", message: String(error) } });
    });
  });
});
server.listen(0, "127.0.0.1", () => fs.writeSync(1, JSON.stringify({ port: server.address().port }) + "\n"));
