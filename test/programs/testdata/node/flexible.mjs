// rate-limiter-flexible before an HTTP server:
//
//     node flexible.mjs host:port node_redis|ioredis

import { createServer } from 'node:http';
import { RateLimiterRedis, RateLimiterRedisNonAtomic } from 'rate-limiter-flexible';
import { ask, askAtOnce, connect, show, within } from './drive.mjs';

const { name, client, leave } = await connect();
const common = { storeClient: client, useRedisPackage: name === 'node_redis' };
const limiters = {
  slow: new RateLimiterRedis({ ...common, keyPrefix: 'slow', points: 3, duration: 60 }),
  fast: new RateLimiterRedis({ ...common, keyPrefix: 'fast', points: 2, duration: 1 }),
  blocking: new RateLimiterRedis({ ...common, keyPrefix: 'blocking', points: 1, duration: 60, blockDuration: 300 }),
  inmemory: new RateLimiterRedis({ ...common, keyPrefix: 'inmemory', points: 1, duration: 60, inMemoryBlockOnConsumed: 1 }),
  simple: new RateLimiterRedisNonAtomic({ ...common, keyPrefix: 'simple', points: 2, duration: 60 }),
  many: new RateLimiterRedis({ ...common, keyPrefix: 'many', points: 100, duration: 60 }),
};

const server = createServer(async (request, response) => {
  const describe = (r) => response.setHeader('x-ratelimit', `consumed ${r.consumedPoints} remaining ${r.remainingPoints} first ${r.isFirstInDuration}`);
  try {
    describe(await limiters[request.url.slice(1)].consume(request.headers['x-user'], Number(request.headers['x-points'] ?? 1)));
    response.end('hello');
  } catch (refusal) {
    if (refusal instanceof Error) {
      response.writeHead(500).end(refusal.stack);
      return;
    }
    describe(refusal);
    response.setHeader('retry-after', Math.ceil(refusal.msBeforeNext / 1000));
    response.writeHead(429).end('slow down');
  }
}).listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
const url = `http://127.0.0.1:${server.address().port}`;

await ask('3 a minute', 5, `${url}/slow`, { 'x-user': 'ann' });
await ask('3 a minute, 2 at once', 2, `${url}/slow`, { 'x-user': 'ben', 'x-points': 2 });
await within(900, async (user, pause) => {
  await ask('2 a second', 3, `${url}/fast`, { 'x-user': user });
  await pause(1_100);
  await ask('2 a second, the next', 3, `${url}/fast`, { 'x-user': user });
});
await ask('1 a minute, then blocked', 3, `${url}/blocking`, { 'x-user': 'ann' });
await ask('1 a minute, blocked in memory', 3, `${url}/inmemory`, { 'x-user': 'ann' });
await ask('2 a minute, without scripts', 3, `${url}/simple`, { 'x-user': 'ann' });
await askAtOnce('64 clients, 100 a minute', 3, `${url}/many`, { 'x-user': 'ann' });

const { slow } = limiters;
const brief = (r) => r && `consumed ${r.consumedPoints} remaining ${r.remainingPoints}`;
show('get', brief(await slow.get('ann')));
show('penalty', brief(await slow.penalty('ann', 2)));
show('reward', brief(await slow.reward('ann', 5)));
show('set', brief(await slow.set('ann', 7, 30)));
show('block', brief(await slow.block('ann', 30)));
show('delete', await slow.delete('ann'), brief(await slow.get('ann')));

server.closeAllConnections();
server.close();
await leave();
