// A short conversation as a user, through any of the clients, in plain text or over TLS:
//
//     node as_user.mjs host port client user password [ca cert key]
//
// The last line is ok, or standard error says what differed.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { begin, end, fail, same } from './expect.mjs';

const { host, port } = begin();
const [client, username, password, ...files] = process.argv.slice(4);
const [ca, cert, key] = files.map((name) => readFileSync(name));
const tls = ca && { ca, cert, key, servername: 'localhost' };

/** Each connects, with a name and a database as applications give them, and returns how to ask and how to leave. */
const clients = {
  async node_redis() {
    const { createClient } = await import('redis');
    const c = createClient({ username, password, name: 'app', database: 0, socket: { host, port, ...(tls && { tls: true, ...tls }) } });
    c.on('error', fail);
    await c.connect();
    same('MULTI', await c.multi().addCommand(['CL.THROTTLE', 'rl:multi', '15', '30', '60', '0']).exec(), [[0, 16, 16, -1, 0]]);
    return { ask: (words) => c.sendCommand(words), leave: () => c.close() };
  },
  async ioredis() {
    const { Redis } = await import('ioredis');
    const c = new Redis({ host, port, username, password, tls, connectionName: 'app', db: 0 });
    c.on('error', fail);
    await once(c, 'ready');
    same('MULTI', await c.multi().call('CL.THROTTLE', 'rl:multi', 15, 30, 60, 0).exec(), [[null, [0, 16, 16, -1, 0]]]);
    return { ask: ([name, ...args]) => c.call(name, ...args), leave: () => c.quit() };
  },
  async redis3() {
    const { default: redis } = await import('redis3');
    const c = redis.createClient({ host, port, user: username, password, tls, db: 0 });
    c.on('error', fail);
    await once(c, 'ready');
    const ask = ([name, ...args]) => new Promise((resolve, reject) => {
      c.sendCommand(name, args, (err, reply) => (err ? reject(err) : resolve(reply)));
    });
    return { ask, leave: () => new Promise((resolve) => c.quit(resolve)) };
  },
};

const { ask, leave } = await clients[client]();
same('CL.THROTTLE', await ask(['CL.THROTTLE', `rl:${process.pid}:${Date.now()}`, '15', '30', '60']), [0, 16, 15, -1, 2]);
same('PING', await ask(['PING']), 'PONG');
await leave();
end();
