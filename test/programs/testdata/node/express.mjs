// express-rate-limit before an application, with rate-limit-redis as its store:
//
//     node express.mjs host:port node_redis|ioredis

import express from 'express';
import { rateLimit } from 'express-rate-limit';
import { RedisStore } from 'rate-limit-redis';
import { ask, askAtOnce, connect, show, within } from './drive.mjs';

const { send, leave } = await connect();
const limiter = (limit, windowMs, prefix, more = {}) => rateLimit({
  windowMs,
  limit,
  standardHeaders: 'draft-8',
  legacyHeaders: true,
  keyGenerator: (request) => request.get('x-user'),
  store: new RedisStore({ sendCommand: send, prefix }),
  ...more,
});

const app = express();
const slow = limiter(3, 60_000, 'rl:slow:');
app.get('/slow', slow, (_, response) => response.send('hello'));
app.get('/fast', limiter(2, 1_000, 'rl:fast:'), (_, response) => response.send('hello'));
app.get('/failed', limiter(2, 60_000, 'rl:failed:', { skipSuccessfulRequests: true }), (_, response) => response.send('hello'));
app.get('/many', limiter(100, 60_000, 'rl:many:'), (_, response) => response.send('hello'));
const server = app.listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
const url = `http://127.0.0.1:${server.address().port}`;

await ask('3 a minute', 5, `${url}/slow`, { 'x-user': 'ann' });
await ask('3 a minute, another user', 1, `${url}/slow`, { 'x-user': 'ben' });
const { totalHits, resetTime } = await slow.getKey('ann');
show('read', totalHits, Math.round((resetTime - Date.now()) / 60_000));
await slow.resetKey('ann');
await ask('3 a minute, after a reset', 1, `${url}/slow`, { 'x-user': 'ann' });
await within(900, async (user, pause) => {
  await ask('2 a second', 3, `${url}/fast`, { 'x-user': user });
  await pause(1_100);
  await ask('2 a second, the next', 3, `${url}/fast`, { 'x-user': user });
});
await ask('successes do not count', 3, `${url}/failed`, { 'x-user': 'ann' });
await askAtOnce('64 clients, 100 a minute', 3, `${url}/many`, { 'x-user': 'ann' });

server.closeAllConnections();
server.close();
await leave();
