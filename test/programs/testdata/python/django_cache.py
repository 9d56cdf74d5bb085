"""django-redis, as those who count in the cache of Django use it:

    /usr/bin/python3 django_cache.py host:port database
"""

import sys
import threading

from django.conf import settings

CLIENTS = 64

if len(sys.argv) != 3:
    sys.exit(f"usage: {sys.argv[0]} host:port database")
settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://{sys.argv[1]}/{sys.argv[2]}",
            "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"},
        }
    }
)

from django.core.cache import cache  # noqa: E402, it reads the settings


def show(what, *answer):
    print(f"{what}: {', '.join(map(str, answer))}", flush=True)


def allowed(key, limit, seconds):
    """What django-ratelimit does for one request."""
    if cache.add(key, 1, seconds):
        return True, 1
    count = cache.incr(key)
    return count <= limit, count


cache.set("old", 1)
show("clear", cache.clear(), cache.get("old"))
for _ in range(5):
    show("3 a minute", *allowed("ann", 3, 60))
show("3 a minute, another user", *allowed("ben", 3, 60))
show("time left", 0 < cache.ttl("ann") <= 60, 0 < cache.pttl("ann") <= 60_000)
show("get", cache.get("ann"), cache.get("none"), cache.get("none", 7))
show("incr by, decr", cache.incr("ann", 10), cache.decr("ann"), cache.decr("ann", 4))
try:
    cache.incr("none")
except ValueError as error:
    show("incr of none", error)
show("incr of none, made", cache.incr("made", 2, ignore_key_check=True))
show("set", cache.set("set", 5, 60), cache.set("set", 6, 60, nx=True), cache.get("set"))
show("touch", cache.touch("set", 30), cache.touch("none", 30))
show("persist", cache.persist("set"), cache.ttl("set"))
show("expire", cache.expire("set", 600), cache.ttl("set") > 500)
show("several", cache.set_many({"a": 1, "b": 2}, 60), cache.get_many(["a", "b", "none"]))
show("has key, delete", cache.has_key("a"), cache.delete("a"), cache.has_key("a"))
show("get or set", cache.get_or_set("default", 9, 60), cache.get_or_set("default", 10, 60))
show("keys", sorted(cache.keys("*")), sorted(cache.iter_keys("a*")))

counts = []
cache.set("all", 0, 60)
threads = [threading.Thread(target=lambda: counts.extend(cache.incr("all") for _ in range(3))) for _ in range(CLIENTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
show(f"{CLIENTS} clients, 3 each", sorted(counts) == list(range(1, 193)))
show("delete pattern", cache.delete_pattern("b*"))
