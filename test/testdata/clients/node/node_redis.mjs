// A conversation with cellserver through node-redis, with its defaults:
//
//     node node_redis.mjs host port
//
// The last line is ok, or standard error says what differed.

import { createClient } from 'redis';
import { begin, between, end, fail, refused, same } from './expect.mjs';

const { host, port, prefix } = begin();
const client = createClient({ socket: { host, port } });
client.on('error', (err) => fail(err));
client.on('reconnecting', () => fail('the connection was lost'));

// Connecting says HELLO 3 and CLIENT SETINFO.
await client.connect();
same('PING', await client.ping(), 'PONG');

// The three limits. The second answer of a THROTTLE may come a moment later,
// so only the first four of its integers are certain.
const throttle = prefix + 'throttle';
const take = ['CL.THROTTLE', throttle, '15', '30', '60', '1'];
same('the first CL.THROTTLE', await client.sendCommand(take), [0, 16, 15, -1, 2]);
const second = await client.sendCommand(take);
same('the second CL.THROTTLE', second.slice(0, 4), [0, 16, 14, -1]);
between('its reset_after', second[4], 3, 4);

const window = prefix + 'window';
same('CL.WINDOW', await client.sendCommand(['CL.WINDOW', window, '5', '60']), [0, 5, 4, -1, 60]);
const zslide = prefix + 'zslide';
same('CL.ZSLIDE', await client.sendCommand(['CL.ZSLIDE', zslide, '3', '60']), [0, 3, 2, -1, 60]);

// Commands sent in one turn of the event loop go out as one pipeline.
const answers = await Promise.all(
  Array.from({ length: 100 }, (_, i) =>
    client.sendCommand(['CL.THROTTLE', `${prefix}pipeline:${i}`, '15', '30', '60', '1'])),
);
same('100 commands in a pipeline', answers, Array(100).fill([0, 16, 15, -1, 2]));

// Several limits at once, and several commands as one.
same('CL.ALL', await client.sendCommand(['CL.ALL', 'WINDOW', `${prefix}a`, '5', '60', '1', 'ZSLIDE', `${prefix}b`, '3', '60', '1']),
  [0, 0, [0, 5, 4, -1, 60], [0, 3, 2, -1, 60]]);
same('a transaction', await client.multi().addCommand(['CL.ZSLIDE', `${prefix}c`, '3', '60']).exists(`${prefix}c`).del(`${prefix}c`).exec(),
  [[0, 3, 2, -1, 60], 1, 1]);

// A bucket is an ordinary key to the typed commands.
same('EXISTS', await client.exists(window), 1);
same('TYPE of a CL.THROTTLE key', await client.type(throttle), 'throttle');
between('TTL', await client.ttl(window), 50, 60);
same('DEL', await client.del(window), 1);
same('EXISTS after DEL', await client.exists(window), 0);
same('TTL after DEL', await client.ttl(window), -2);

// An error reply is a rejection in the server's words, and the connection lives on.
await refused('a period of 0', client.sendCommand(['CL.THROTTLE', throttle, '15', '30', '0']), 'ERR ');
same('PING after an error', await client.ping(), 'PONG');

await client.close();
end();
