// What the conversations share: exact comparisons, and no tolerance for
// anything the client complains about on the way.

import { isDeepStrictEqual } from 'node:util';

/** A conversation that has not ended after this many milliseconds has hung. */
const patience = 30_000;

/** Says what differed and ends the conversation as failed. */
export function fail(what) {
  process.stderr.write(`${what instanceof Error ? what.stack : what}\n`);
  process.exit(1);
}

/** Fails unless got and want are deeply equal, types included. */
export function same(what, got, want) {
  if (!isDeepStrictEqual(got, want)) {
    fail(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
}

/** Fails unless got is a number from low to high, both included. */
export function between(what, got, low, high) {
  if (typeof got !== 'number' || !(low <= got && got <= high)) {
    fail(`${what}: got ${JSON.stringify(got)}, want a number from ${low} to ${high}`);
  }
}

/** Fails unless the promise is rejected with a message that begins so. */
export async function refused(what, promise, beginning) {
  let got;
  try {
    got = await promise;
  } catch (err) {
    if (!err.message.startsWith(beginning)) {
      fail(`${what}: got the error ${JSON.stringify(err.message)}, want ${JSON.stringify(beginning)}...`);
    }
    return;
  }
  fail(`${what}: got ${JSON.stringify(got)}, want an error`);
}

/**
 * Reads the host and port arguments, and from then on takes a warning, a line
 * on the console or a silence that lasts too long as a failure.
 */
export function begin() {
  const [host, port] = process.argv.slice(2);
  if (!host || !port) {
    fail(`usage: ${process.argv[1]} host port`);
  }
  process.on('warning', (warning) => fail(`a warning: ${warning.stack}`));
  for (const level of ['debug', 'error', 'info', 'log', 'trace', 'warn']) {
    console[level] = (...args) => fail(`the client wrote to console.${level}: ${args.join(' ')}`);
  }
  setTimeout(() => fail(`no end after ${patience} ms`), patience).unref();

  // A prefix of its own lets a conversation be held twice with one server.
  return { host, port: Number(port), prefix: `node:${process.pid}:${Date.now()}:` };
}

/**
 * Says that all went well once nothing is left to run: a connection that the
 * client failed to close keeps the process alive until patience runs out.
 */
export function end() {
  process.once('beforeExit', () => process.stdout.write('ok\n'));
}
