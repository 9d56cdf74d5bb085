/**
 * Express middleware that admits what cellserver admits, and answers the rest with 429.
 *
 * @param client a connected client of node-redis
 * @param {object} options
 * @param {(req) => string} options.key names who asks
 * @param {number} options.burst requests at once, beyond the pace
 * @param {number} options.count requests per period on average
 * @param {number} options.period seconds
 * @param {number} [options.patience] milliseconds to wait for cellserver
 * @param {boolean} [options.failClosed] answer 503 while cellserver cannot be asked, instead of admitting everything
 */
export function limit(client, { key, burst, count, period, patience = 250, failClosed = false }) {
  return async (req, res, next) => {
    const command = ['CL.THROTTLE', key(req), String(burst), String(count), String(period)];
    let answer;
    try {
      answer = await within(patience, client.sendCommand(command));
    } catch (err) {
      console.error(`cellserver cannot be asked: ${err.message}`);
      if (failClosed) {
        return res.set('Retry-After', '1').status(503).json({ error: 'limits cannot be checked' });
      }
      return next();
    }
    const [limited, limit, remaining, retryAfter, resetAfter] = answer;
    res.set({
      'X-RateLimit-Limit': String(limit),
      'X-RateLimit-Remaining': String(remaining),
      'X-RateLimit-Reset': String(resetAfter),
    });
    if (limited) {
      return res.set('Retry-After', String(retryAfter)).status(429).json({ error: 'too many requests' });
    }
    next();
  };
}

/** What the promise settles to, or a rejection when that takes longer than so many milliseconds. */
function within(milliseconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${milliseconds} ms`)), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
