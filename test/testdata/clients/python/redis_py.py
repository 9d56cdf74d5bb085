#!/usr/bin/python3
"""A conversation with cellserver through redis-py, with its defaults.

    /usr/bin/python3 redis_py.py host port

The last line is ok, or standard error says what differed.
"""

import faulthandler
import logging
import os
import sys
import time
import warnings

import redis

# A conversation that has not ended after this many seconds has hung.
PATIENCE = 30


def fail(what):
    """Says what differed and ends the conversation as failed."""
    print(what, file=sys.stderr)
    sys.exit(1)


def same(what, got, want):
    """Fails unless got and want are equal and of one type."""
    if type(got) is not type(want) or got != want:
        fail(f"{what}: got {got!r}, want {want!r}")


def between(what, got, low, high):
    """Fails unless got is an integer from low to high, both included."""
    if type(got) is not int or not low <= got <= high:
        fail(f"{what}: got {got!r}, want an integer from {low} to {high}")


class Complaints(logging.Handler):
    """Takes whatever a library logs as a failure."""

    def emit(self, record):
        fail(f"{record.name} logged: {record.getMessage()}")


def limits(r, prefix):
    """The three limits, one command at a time."""
    throttle = prefix + "throttle"
    same("the first CL.THROTTLE", r.execute_command("CL.THROTTLE", throttle, 15, 30, 60, 1), [0, 16, 15, -1, 2])
    # The second answer may come a moment later: only the first four are certain.
    second = r.execute_command("CL.THROTTLE", throttle, 15, 30, 60, 1)
    same("the second CL.THROTTLE", second[:4], [0, 16, 14, -1])
    between("its reset_after", second[4], 3, 4)

    same("CL.WINDOW", r.execute_command("CL.WINDOW", prefix + "window", 5, 60), [0, 5, 4, -1, 60])
    same("CL.ZSLIDE", r.execute_command("CL.ZSLIDE", prefix + "zslide", 3, 60), [0, 3, 2, -1, 60])

    try:
        got = r.execute_command("CL.THROTTLE", throttle, 15, 30, 0)
        fail(f"a period of 0: got {got!r}, want an error")
    except redis.ResponseError as err:
        # redis-py takes the leading ERR away.
        if not str(err).startswith("period must be "):
            fail(f"a period of 0: got the error {str(err)!r}")
    same("PING after an error", r.ping(), True)


def pipeline(r, prefix):
    """A thousand commands, all of them sent before the first reply is read."""
    with r.pipeline(transaction=False) as p:
        for i in range(1000):
            p.execute_command("CL.WINDOW", f"{prefix}pipeline:{i}", 5, 60)
        same("1000 commands in a pipeline", p.execute(), [[0, 5, 4, -1, 60]] * 1000)


def several(r, prefix):
    """Several limits at once, and several commands as one: a pipeline is a transaction unless it is told otherwise."""
    a, b = prefix + "all:a", prefix + "all:b"
    same("CL.ALL", r.execute_command("CL.ALL", "WINDOW", a, 5, 60, 1, "ZSLIDE", b, 3, 60, 1),
         [0, 0, [0, 5, 4, -1, 60], [0, 3, 2, -1, 60]])
    with r.pipeline() as p:
        p.execute_command("CL.ZSLIDE", b, 3, 60, 3)
        p.execute_command("CL.GET", b)
        p.delete(a, b)
        p.exists(a)
        refused, bucket, gone, there = p.execute()
    same("a refusal in a transaction", refused[:3], [1, 3, 2])
    same("CL.GET in it", bucket[:2], [b"kind", b"zslide"])
    same("the rest of it", [gone, there], [2, 0])
    other = redis.Redis(**r.connection_pool.connection_kwargs)
    with r.pipeline() as p:
        p.watch(a)
        other.execute_command("CL.WINDOW", a, 5, 60)
        p.multi()
        p.delete(a)
        try:
            fail(f"a transaction on a key that was changed: got {p.execute()!r}")
        except redis.WatchError:
            pass
    other.close()


def keys(r, prefix):
    """What the other two left behind, through the commands for ordinary keys."""
    want = {f"{prefix}pipeline:{i}".encode() for i in range(1000)}
    # A key may be returned more than once, but none may be left out.
    same("SCAN", set(r.scan_iter(match=prefix + "pipeline:*")), want)
    between("DBSIZE", r.dbsize(), 1000, 1 << 40)

    window = prefix + "window"
    same("TYPE of a CL.WINDOW key", r.type(window), b"window")
    between("TTL", r.ttl(window), 50, 60)
    same("DEL", r.delete(window, prefix + "zslide", prefix + "nobody"), 2)
    same("EXISTS after DEL", r.exists(window), 0)
    same("TTL after DEL", r.ttl(window), -2)
    same("DEL of a thousand keys", r.delete(*want), 1000)


def introspection(r, prefix):
    """What dashboards and command lines built on redis-py ask for."""
    same("CLIENT SETNAME", r.client_setname(prefix), True)
    same("CLIENT GETNAME", r.client_getname(), prefix)
    mine = [c for c in r.client_list() if c["id"] == str(r.client_id())]
    same("CLIENT LIST", [c["name"] for c in mine], [prefix])

    info = r.info()
    same("the role in INFO", info.get("role"), "master")
    version = str(info.get("redis_version")).split(".")
    if len(version) != 3 or not all(part.isdecimal() for part in version):
        fail(f"the redis_version in INFO: got {info.get('redis_version')!r}, want three numbers")

    same("CONFIG GET maxclients", r.config_get("maxclients"), {"maxclients": "10000"})
    between("COMMAND COUNT", r.command_count(), 1, 1000)


def main(args):
    if len(args) != 2:
        fail(f"usage: {sys.argv[0]} host port")
    host, port = args
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    warnings.simplefilter("error")
    logging.getLogger().addHandler(Complaints(logging.WARNING))

    # A prefix of its own lets a conversation be held twice with one server.
    prefix = f"python:{os.getpid()}:{time.time_ns()}:"
    with redis.Redis(host=host, port=int(port)) as r:
        same("PING", r.ping(), True)
        limits(r, prefix)
        pipeline(r, prefix)
        several(r, prefix)
        keys(r, prefix)
        introspection(r, prefix)
    print("ok")


if __name__ == "__main__":
    main(sys.argv[1:])
