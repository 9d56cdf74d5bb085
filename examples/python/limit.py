#!/usr/bin/python3
"""A decorator that limits how often a function may be called, with redis-py.

    limit.py [host [port]]

calls one that is limited to 5 calls a minute, seven times.
"""

import functools
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


class TooManyCalls(Exception):
    """A call that is one too many."""

    def __init__(self, retry_after):
        super().__init__(f"too many calls: try again in {retry_after} s")
        #: The seconds until the same call would be admitted.
        self.retry_after = retry_after


def limited(client, key, limit, period, fail_closed=False):
    """Admits at most limit calls in any period of so many seconds.

    key is called with the arguments of the call, and names who is limited. A call that is refused raises TooManyCalls.
    While cellserver cannot be reached all calls are admitted, or, with fail_closed, none: its error is raised then.
    """

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            try:
                refused, _, _, retry_after, _ = client.execute_command(
                    "CL.ZSLIDE", key(*args, **kwargs), limit, period)
            except (redis.ConnectionError, redis.TimeoutError):
                if fail_closed:
                    raise
                refused = False
            if refused:
                raise TooManyCalls(retry_after)
            return function(*args, **kwargs)

        return call

    return decorate


def main(host="127.0.0.1", port="6379"):
    # A call whose answer was lost may have been counted: asking again could count it twice.
    client = redis.Redis(host=host, port=int(port), retry=Retry(NoBackoff(), 0),
                         socket_timeout=0.25, socket_connect_timeout=0.25)

    @limited(client, key=lambda user: f"login:{user}", limit=5, period=60)
    def login(user):
        return f"{user} may try a password"

    for _ in range(7):
        try:
            print(login("alice"))
        except TooManyCalls as err:
            print(err)


if __name__ == "__main__":
    main(*sys.argv[1:])
