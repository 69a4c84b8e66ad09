// As much of WASI's first preview as a program without files needs, in a worker of a browser: arguments, a clock, random numbers,
// two streams of text, and an end.
"use strict";

const BAD_FILE = 8, NO_SYSTEM_CALL = 52;

class Ended extends Error {}

// Runs a program; `write` gets each line, and the number of its stream.
async function run(bytes, programArguments, write) {
  let memory;
  const encoder = new TextEncoder(), decoders = {};
  const unfinished = {};
  const view = () => new DataView(memory.buffer);
  const part = (at, length) => new Uint8Array(memory.buffer, at, length);

  const put = (stream, text) => {
    const lines = ((unfinished[stream] ?? "") + text).split("\n");
    unfinished[stream] = lines.pop();
    lines.forEach((line) => write(stream, line));
  };
  // Texts that end with 0: their addresses at `list`, and themselves at `at`.
  const listed = (texts, list, at) => {
    texts.forEach((text, index) => {
      const encoded = encoder.encode(text + "\0");
      view().setUint32(list + 4 * index, at, true);
      part(at, encoded.length).set(encoded);
      at += encoded.length;
    });
    return 0;
  };
  const sizes = (texts, count, length) => {
    view().setUint32(count, texts.length, true);
    view().setUint32(length, texts.reduce((sum, text) => sum + encoder.encode(text).length + 1, 0), true);
    return 0;
  };

  const calls = {
    args_get: (list, at) => listed(programArguments, list, at),
    args_sizes_get: (count, length) => sizes(programArguments, count, length),
    environ_get: () => 0,
    environ_sizes_get: (count, length) => sizes([], count, length),
    // The first clock is the time of day, the others begin where they like.
    clock_time_get: (clock, precision, to) => {
      const milliseconds = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(to, BigInt(Math.round(milliseconds * 1e6)), true);
      return 0;
    },
    random_get: (at, length) => {
      // A browser gives 65536 bytes at once.
      for (let from = 0; from < length; from += 65536) crypto.getRandomValues(part(at + from, Math.min(65536, length - from)));
      return 0;
    },
    // There are standard output and standard error, which are devices of characters.
    fd_fdstat_get: (file, to) => {
      if (file > 2) return BAD_FILE;
      part(to, 24).fill(0);
      view().setUint8(to, 2);
      return 0;
    },
    fd_prestat_get: () => BAD_FILE,
    fd_write: (file, list, count, written) => {
      if (file !== 1 && file !== 2) return BAD_FILE;
      let sum = 0;
      for (let index = 0; index < count; index++) {
        const at = view().getUint32(list + 8 * index, true), length = view().getUint32(list + 8 * index + 4, true);
        decoders[file] ??= new TextDecoder();
        put(file, decoders[file].decode(part(at, length).slice(), { stream: true }));
        sum += length;
      }
      view().setUint32(written, sum, true);
      return 0;
    },
    sched_yield: () => 0,
    proc_exit: (status) => {
      throw Object.assign(new Ended(), { status });
    },
  };

  const module = await WebAssembly.compile(bytes);
  const imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    (imports[from] ??= {})[name] = calls[name] ?? (() => NO_SYSTEM_CALL);
  }
  const instance = await WebAssembly.instantiate(module, imports);
  memory = instance.exports.memory;
  try {
    instance.exports._start();
    return 0;
  } catch (error) {
    if (error instanceof Ended) return error.status;
    throw error;
  }
}

onmessage = async ({ data: { bytes, programArguments } }) => {
  try {
    const status = await run(bytes, programArguments, (stream, line) => postMessage({ stream, line }));
    postMessage({ status });
  } catch (error) {
    postMessage({ status: -1, failure: String(error) });
  }
};
