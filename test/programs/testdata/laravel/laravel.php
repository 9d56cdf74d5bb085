<?php
// Laravel's rate limiter and its cache, through phpredis, with the prefixes of a new
// application:
//
//     php laravel.php host:port database

declare(strict_types=1);

require '/usr/share/php/Illuminate/Cache/autoload.php';
require '/usr/share/php/Illuminate/Redis/autoload.php';

use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Redis\RedisManager;

// A warning or a notice of the client is a failure.
set_error_handler(function (int $level, string $what, string $file, int $line): bool {
    if (error_reporting() & $level & ~E_DEPRECATED) {
        throw new ErrorException($what, 0, $level, $file, $line);
    }
    return true;
});

if ($argc !== 3 || !preg_match('/^(.+):(\d+)$/', $argv[1], $address)) {
    fwrite(STDERR, "usage: {$argv[0]} host:port database\n");
    exit(2);
}

function cache(): Repository
{
    global $address, $argv;
    $redis = new RedisManager(null, 'phpredis', [
        'options' => ['prefix' => 'laravel_database_'],
        'cache' => ['host' => $address[1], 'port' => $address[2], 'password' => null, 'database' => $argv[2]],
    ]);
    return new Repository(new RedisStore($redis, 'laravel_cache', 'cache'));
}

function show(string $what, mixed ...$answer): void
{
    echo $what, ': ', implode(', ', array_map(fn ($a) => is_string($a) ? $a : json_encode($a), $answer)), "\n";
}

// Has requests made that must fit into so many seconds, for another key each time,
// until they do, and returns what they answered.
function within(float $seconds, callable $ask): array
{
    for ($n = 0; $n < 20; $n++) {
        $began = microtime(true);
        $answers = $ask("user$n");
        if (microtime(true) - $began < $seconds) {
            return $answers;
        }
    }
    throw new Exception('the machine is too busy');
}

// What the middleware ThrottleRequests does for one request.
function request(RateLimiter $limiter, string $key, int $most, int $seconds): string
{
    if ($limiter->tooManyAttempts($key, $most)) {
        return "429, X-RateLimit-Limit=$most, X-RateLimit-Remaining=" . $limiter->retriesLeft($key, $most)
            . ', Retry-After=' . $limiter->availableIn($key);
    }
    $limiter->hit($key, $seconds);
    return "200, X-RateLimit-Limit=$most, X-RateLimit-Remaining=" . $limiter->retriesLeft($key, $most);
}

$cache = cache();
$limiter = new RateLimiter($cache);

for ($i = 0; $i < 5; $i++) {
    show('3 a minute', request($limiter, 'ann', 3, 60));
}
show('3 a minute, another user', request($limiter, 'ben', 3, 60));
show('attempts', $limiter->attempts('ann'), $limiter->remaining('ann', 3));
$limiter->clear('ann');
show('3 a minute, cleared', request($limiter, 'ann', 3, 60));
for ($time = 0; $time < 2; $time++) {
    $answers = within(0.9, fn ($key) => array_map(fn () => request($limiter, "$time:$key", 2, 1), range(1, 3)));
    array_map(fn ($answer) => show('2 a second', $answer), $answers);
}
$limiter->hit('brief', 1);
$limiter->hit('brief', 1);
usleep(2_100_000); // its timer has whole seconds
show('2 a second, later', $limiter->tooManyAttempts('brief', 2));
for ($i = 0; $i < 3; $i++) {
    show('attempt', $limiter->attempt('dan', 2, fn () => 'done', 60));
}

show('add', $cache->add('added', 1, 60), $cache->add('added', 2, 60), $cache->get('added'));
show('increment', $cache->increment('count'), $cache->increment('count', 5), $cache->decrement('count', 2), $cache->get('count'));
show('put', $cache->put('put', 42, 60), $cache->pull('put'), $cache->get('put'));
show('many', $cache->putMany(['one' => 1, 'two' => 2], 60), $cache->many(['one', 'two', 'three']));
show('forever', $cache->forever('kept', 7), $cache->forget('kept'), $cache->forget('kept'));

// 64 clients at once. Laravel asks first and counts later, so that too many may pass:
// what is exact is the count. A key's first hit is made alone: Laravel sets the count to 1
// if the first to increment it is not the one that has made it.
$limiter->hit('all', 60);
$children = [];
for ($i = 0; $i < 64; $i++) {
    if (($pid = pcntl_fork()) === 0) {
        $mine = new RateLimiter(cache());
        for ($j = 0; $j < 3; $j++) {
            $mine->hit('all', 60);
        }
        exit(0);
    }
    $children[] = $pid;
}
$failed = 0;
foreach ($children as $pid) {
    pcntl_waitpid($pid, $status);
    $failed += $status === 0 ? 0 : 1;
}
show('64 clients, 3 hits each', $limiter->attempts('all'), "$failed failed");
