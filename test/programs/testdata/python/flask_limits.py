"""flask-limiter in a Flask application, and limits by itself:

    /usr/bin/python3 flask_limits.py host:port database
"""

import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter

import limits
from flask import Flask, request
from flask_limiter import Limiter
from limits.storage import storage_from_string
from werkzeug.serving import WSGIRequestHandler, make_server

CLIENTS = 64


def show(what, *answer):
    print(f"{what}: {', '.join(map(str, answer))}", flush=True)


def ask_once(url, user):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"X-User": user})) as response:
            return response.status, response.headers
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.headers


def answers(count, url, user):
    """Asks one time after the other and returns status and headers of each answer."""
    for _ in range(count):
        status, headers = ask_once(url, user)
        about = [f"{name}={value}" for name, value in headers.items() if name in ("X-RateLimit-Limit", "X-RateLimit-Remaining", "Retry-After")]
        yield [status, *about]


def ask(what, count, url, user):
    for answer in answers(count, url, user):
        show(what, *answer)


def within(seconds, function):
    """Calls it with another user each time, until it takes no longer, and returns what it returned."""
    for n in range(20):
        began = time.monotonic()
        result = function(f"user{n}")
        if time.monotonic() - began < seconds:
            return result
    sys.exit("the machine is too busy")


def at_once(function):
    """Calls it from so many threads and returns what all of them returned."""
    results = []
    threads = [threading.Thread(target=lambda: results.extend(function())) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def ask_at_once(what, each, url, user):
    statuses = Counter(at_once(lambda: [ask_once(url, user)[0] for _ in range(each)]))
    show(what, *(f"{n} of {status}" for status, n in sorted(statuses.items())))


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


def application(uri, strategy):
    app = Flask(__name__)
    limiter = Limiter(lambda: request.headers["X-User"], app=app, storage_uri=uri, strategy=strategy, headers_enabled=True, key_prefix=strategy)

    @app.get("/slow")
    @limiter.limit("3 per minute")
    def slow():
        return "hello"

    @app.get("/fast")
    @limiter.limit("2 per second")
    def fast():
        return "hello"

    @app.get("/many")
    @limiter.limit("100 per minute")
    def many():
        return "hello"

    return app


def over_http(uri, strategy):
    server = make_server("127.0.0.1", 0, application(uri, strategy), threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    ask(f"{strategy}, 3 a minute", 5, f"{url}/slow", "ann")
    ask(f"{strategy}, 3 a minute, another user", 1, f"{url}/slow", "ben")
    for attempt in range(2):
        for answer in within(0.9, lambda user: list(answers(3, f"{url}/fast", f"{user} {attempt}"))):
            show(f"{strategy}, 2 a second", *answer)
    for _ in range(2):
        ask_once(f"{url}/fast", "cid")
    time.sleep(1.1)  # its window is over
    status, _ = ask_once(f"{url}/fast", "cid")
    show(f"{strategy}, 2 a second, later", status)
    ask_at_once(f"{strategy}, {CLIENTS} clients, 100 a minute", 3, f"{url}/many", "ann")
    server.shutdown()
    thread.join()


def by_itself(uri):
    storage = storage_from_string(uri)
    show("check", storage.check())
    limiter = limits.strategies.FixedWindowRateLimiter(storage)
    three = limits.parse("3/minute")
    for _ in range(2):
        show("test, hit 2", limiter.test(three, "ann"), limiter.hit(three, "ann", cost=2), limiter.get_window_stats(three, "ann")[1])
    limiter.clear(three, "ann")
    show("cleared", limiter.get_window_stats(three, "ann")[1])
    hundred = limits.parse("100/minute")
    show(f"{CLIENTS} clients, 100 a minute", sum(at_once(lambda: [limiter.hit(hundred, "ben") for _ in range(3)])))
    time.sleep(1.1)  # until the keys of one second are gone
    show("reset", storage.reset())


def main():
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} host:port database")
    uri = f"redis://{sys.argv[1]}/{sys.argv[2]}"
    # The third strategy, moving-window, needs lists.
    for strategy in ("fixed-window", "fixed-window-elastic-expiry"):
        over_http(uri, strategy)
    by_itself(uri)


main()
