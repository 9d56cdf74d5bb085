// A conversation with cellserver through ioredis, with its defaults:
//
//     node ioredis.mjs host port
//
// The last line is ok, or standard error says what differed.

import { once } from 'node:events';
import { Redis } from 'ioredis';
import { begin, between, end, fail, refused, same } from './expect.mjs';

const { host, port, prefix } = begin();
const redis = new Redis(port, host);
redis.on('error', (err) => fail(err));
redis.on('reconnecting', () => fail('the connection was lost'));

// ready comes when INFO has said that nothing is being loaded.
await once(redis, 'ready');
same('PING', await redis.ping(), 'PONG');

// The three limits. The second answer of a THROTTLE may come a moment later,
// so only the first four of its integers are certain.
const throttle = prefix + 'throttle';
same('the first CL.THROTTLE', await redis.call('CL.THROTTLE', throttle, 15, 30, 60, 1), [0, 16, 15, -1, 2]);
const second = await redis.call('CL.THROTTLE', throttle, 15, 30, 60, 1);
same('the second CL.THROTTLE', second.slice(0, 4), [0, 16, 14, -1]);
between('its reset_after', second[4], 3, 4);

const window = prefix + 'window';
same('CL.WINDOW', await redis.call('CL.WINDOW', window, 5, 60), [0, 5, 4, -1, 60]);
const zslide = prefix + 'zslide';
same('CL.ZSLIDE', await redis.call('CL.ZSLIDE', zslide, 3, 60), [0, 3, 2, -1, 60]);

// A pipeline answers with one [error, reply] pair per command, in order.
const pipeline = redis.pipeline();
for (let i = 0; i < 100; i++) {
  pipeline.call('CL.THROTTLE', `${prefix}pipeline:${i}`, 15, 30, 60, 1);
}
same('100 commands in a pipeline', await pipeline.exec(), Array(100).fill([null, [0, 16, 15, -1, 2]]));

const mixed = await redis.pipeline()
  .call('CL.WINDOW', window, 5, 60, 0)
  .type(throttle)
  .exists(zslide)
  .del(zslide)
  .exists(zslide)
  .exec();
same('a pipeline of many kinds', mixed.map(([err]) => err), Array(5).fill(null));
same('CL.WINDOW in it', mixed[0][1].slice(0, 4), [0, 5, 4, -1]);
same('the rest of it', mixed.slice(1).map(([, reply]) => reply), ['throttle', 1, 1, 0]);

// A transaction is a pipeline that nobody comes between.
same('a transaction', await redis.multi().call('CL.ZSLIDE', `${prefix}c`, 3, 60).exists(`${prefix}c`).del(`${prefix}c`).exec(),
  [[null, [0, 3, 2, -1, 60]], [null, 1], [null, 1]]);

// A bucket is an ordinary key to the typed commands.
between('TTL', await redis.ttl(window), 50, 60);
same('DEL', await redis.del(window), 1);
same('TTL after DEL', await redis.ttl(window), -2);

// An error reply is a rejection in the server's words, and the connection lives on.
await refused('a period of 0', redis.call('CL.THROTTLE', throttle, 15, 30, 0), 'ERR ');
same('PING after an error', await redis.ping(), 'PONG');

same('QUIT', await redis.quit(), 'OK');
end();
