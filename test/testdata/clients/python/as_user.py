#!/usr/bin/python3
"""A short conversation as a user, through redis-py, in plain text or over TLS.

    /usr/bin/python3 as_user.py port user password [ca cert key]

The last line is ok, or an exception says what differed.
"""

import sys
import uuid

import redis

port, user, password, *files = sys.argv[1:]
options = {}
if files:
    options = {"ssl": True, "ssl_ca_certs": files[0], "ssl_certfile": files[1], "ssl_keyfile": files[2]}

# A name and a database, as applications give them; redis-py of some ages speaks RESP2 only.
r = redis.Redis(host="localhost", port=int(port), username=user, password=password, client_name="app", db=0, **options)
key = f"rl:{uuid.uuid4()}"
assert r.ping() is True
assert r.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2]
# A pipeline is MULTI and EXEC unless it is told otherwise.
with r.pipeline() as p:
    p.execute_command("CL.THROTTLE", key, 15, 30, 60, 0)
    assert p.execute()[0][:4] == [0, 16, 15, -1]
r.close()
print("ok")
