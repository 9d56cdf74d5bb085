// What the drivers share: a connection to the server, HTTP requests, and one line of
// output for each answer.

/** Once connected, either client says how to send a command and how to leave. */
const clients = {
  async node_redis(host, port, options) {
    const { createClient } = await import('redis');
    const client = createClient({ ...options, socket: { host, port } });
    client.on('error', fail);
    await client.connect();
    return { client, send: (...words) => client.sendCommand(words), leave: () => client.close() };
  },
  async ioredis(host, port, options) {
    const { Redis } = await import('ioredis');
    const client = new Redis({ ...options, host, port });
    client.on('error', fail);
    return { client, send: (name, ...args) => client.call(name, ...args), leave: () => client.quit() };
  },
};

export function fail(what) {
  process.stderr.write(`${what instanceof Error ? what.stack : what}\n`);
  process.exit(1);
}

/** Reads the arguments, host:port and the client to use, and connects. */
export async function connect(options = {}) {
  const [address, name] = process.argv.slice(2);
  if (!address || !clients[name]) {
    fail(`usage: ${process.argv[1]} host:port ${Object.keys(clients).join('|')}`);
  }
  const colon = address.lastIndexOf(':');
  const connection = await clients[name](address.slice(0, colon), Number(address.slice(colon + 1)), options);
  return { name, ...connection };
}

let print = (line) => process.stdout.write(line);

export function show(what, ...answer) {
  print(`${what}: ${answer.join(', ')}\n`);
}

/**
 * Has a group of requests made that must fit into so many milliseconds, as another user
 * each time, until they do. What a group says that is too slow is forgotten. ask is given
 * the user and a function that starts the time anew.
 */
export async function within(milliseconds, ask) {
  const printed = print;
  for (let n = 0; n < 20; n++) {
    const lines = [];
    print = (line) => lines.push(line);
    let began = performance.now();
    let slow = false;
    const stop = () => {
      slow ||= performance.now() - began >= milliseconds;
    };
    await ask(`user${n}`, async (pause) => {
      stop();
      await new Promise((resolve) => setTimeout(resolve, pause));
      began = performance.now();
    });
    stop();
    print = printed;
    if (!slow) {
      lines.forEach(print);
      return;
    }
  }
  fail('the machine is too busy');
}

/** A header as text; a time of day is shown as the seconds until then, and no hash of the user. */
const pair = ([name, value]) =>
  `${name}=${value > 1e9 ? (value - Date.now() / 1000).toFixed(1) : value.replace(/; pk=[^;]*/, '')}`;

/** Asks count times, one after the other, and shows status, headers and the text. */
export async function ask(what, count, url, headers = {}) {
  for (let i = 0; i < count; i++) {
    const response = await fetch(url, { headers });
    const about = [...response.headers].filter(([name]) => /ratelimit|retry-after/.test(name));
    // The headers have the time to wait, in seconds.
    const text = (await response.text()).replace(/retry in \d+ \w+/, 'retry later');
    show(what, response.status, ...about.map(pair), text);
  }
}

/** Asks from 64 clients at once and shows how many got which status. */
export async function askAtOnce(what, each, url, headers = {}) {
  const seen = {};
  await Promise.all(Array.from({ length: 64 }, async () => {
    for (let i = 0; i < each; i++) {
      const response = await fetch(url, { headers });
      await response.arrayBuffer();
      seen[response.status] = (seen[response.status] ?? 0) + 1;
    }
  }));
  show(what, ...Object.entries(seen).map(([status, n]) => `${n} of ${status}`));
}
