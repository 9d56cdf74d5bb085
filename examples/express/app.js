// An Express application in which every user may send 10 requests a minute, and 4 more at once. What the
// environment may say:
//
//   PORT         where to listen: 3000, or any free port for 0
//   REDIS_URL    where cellserver is: redis://127.0.0.1:6379
//   PERIOD       seconds in which those 10 are admitted: 60
//   PATIENCE     milliseconds to wait for cellserver: 250
//   FAIL_CLOSED  1 answers 503 while cellserver cannot be asked

import express from 'express';
import { createClient } from 'redis';
import { limit } from './limit.js';

const client = createClient({
  url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379',
  // A request does not wait for a connection to come back.
  disableOfflineQueue: true,
});
client.on('error', (err) => console.error(`cellserver: ${err.message || err.code}`));
// Not awaited: the application also starts while cellserver is away.
client.connect().catch(() => {});

const app = express();
app.disable('x-powered-by');
app.use(express.json());

app.post('/operations', limit(client, {
  // In your application: the user who has logged in, and not what anybody can write. A key has at most 4096 bytes.
  key: (req) => `user:${String(req.body?.userId ?? req.ip).slice(0, 100)}`,
  burst: 4,
  count: 10,
  period: Number(process.env.PERIOD ?? 60),
  patience: Number(process.env.PATIENCE ?? 250),
  failClosed: process.env.FAIL_CLOSED === '1',
}), (req, res) => {
  res.json({ done: true });
});

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', (err) => {
  if (err) {
    throw err;
  }
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => server.close(() => client.destroy()));
}
