// @fastify/rate-limit before an application, with its store for Redis, which knows ioredis
// only:
//
//     node fastify.mjs host:port ioredis

import fastify from 'fastify';
import rateLimit from '@fastify/rate-limit';
import { ask, askAtOnce, connect, fail, within } from './drive.mjs';

const { name, client, leave } = await connect({ maxRetriesPerRequest: 1 });
if (name !== 'ioredis') {
  fail('@fastify/rate-limit works with ioredis only');
}

const app = fastify();
await app.register(rateLimit, { global: false, redis: client, nameSpace: 'fastify:', keyGenerator: (request) => request.headers['x-user'] });
const reply = async () => 'hello';
app.get('/slow', { config: { rateLimit: { max: 3, timeWindow: '1 minute' } } }, reply);
app.get('/fast', { config: { rateLimit: { max: 2, timeWindow: 1_000 } } }, reply);
app.get('/continued', { config: { rateLimit: { max: 2, timeWindow: 6_000, continueExceeding: true } } }, reply);
app.get('/backoff', { config: { rateLimit: { max: 2, timeWindow: 1_000, exponentialBackoff: true } } }, reply);
app.get('/banned', { config: { rateLimit: { max: 1, timeWindow: '1 minute', ban: 1 } } }, reply);
app.get('/many', { config: { rateLimit: { max: 100, timeWindow: '1 minute' } } }, reply);
const url = await app.listen({ host: '127.0.0.1', port: 0 });

await ask('3 a minute', 5, `${url}/slow`, { 'x-user': 'ann' });
await ask('3 a minute, another user', 1, `${url}/slow`, { 'x-user': 'ben' });
await within(900, async (user, pause) => {
  await ask('2 a second', 3, `${url}/fast`, { 'x-user': user });
  await pause(1_100);
  await ask('2 a second, the next', 3, `${url}/fast`, { 'x-user': user });
});
await within(900, async (user, pause) => {
  await ask('2 in 6 seconds', 2, `${url}/continued`, { 'x-user': user });
  await pause(3_500);
  await ask('2 in 6 seconds, refusals prolong it', 2, `${url}/continued`, { 'x-user': user });
});
await within(900, (user) => ask('2 a second, doubled by each refusal', 5, `${url}/backoff`, { 'x-user': user }));
await ask('1 a minute, then a ban', 4, `${url}/banned`, { 'x-user': 'ann' });
await askAtOnce('64 clients, 100 a minute', 3, `${url}/many`, { 'x-user': 'ann' });

await app.close();
await leave();
