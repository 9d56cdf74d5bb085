#!/usr/bin/python3
"""Tests of limit.py:

    limit_test.py host port

with a cellserver that listens there.
"""

import os
import sys
import threading
import time
import unittest

import redis

from limit import TooManyCalls, limited

# A prefix of its own lets the tests run twice with one server.
PREFIX = f"limit.py:{os.getpid()}:{time.time_ns()}:"
HOST, PORT = "127.0.0.1", 6379


class Limited(unittest.TestCase):
    def setUp(self):
        self.client = redis.Redis(host=HOST, port=PORT)
        self.addCleanup(self.client.close)
        self.prefix = PREFIX + self.id() + ":"

    def function(self, limit, client=None, **options):
        """A function that is limited for each user, and is never admitted again within the test."""

        @limited(client or self.client, key=lambda user: self.prefix + user, limit=limit, period=86400, **options)
        def double(user):
            """Doubles."""
            return user + user

        return double

    def test_admits_the_limit_and_says_when_to_come_back(self):
        double = self.function(2)
        self.assertEqual(double("a"), "aa")
        self.assertEqual(double(user="a"), "aa")
        for _ in range(10):
            with self.assertRaises(TooManyCalls) as caught:
                double("a")
            self.assertTrue(86300 < caught.exception.retry_after <= 86400, caught.exception.retry_after)
            self.assertEqual(str(caught.exception),
                             f"too many calls: try again in {caught.exception.retry_after} s")
        self.assertEqual(double("b"), "bb")

    def test_stays_the_function_it_was(self):
        double = self.function(1)
        self.assertEqual((double.__name__, double.__doc__), ("double", "Doubles."))

    def test_admits_the_limit_to_many_threads(self):
        double = self.function(10)
        everybody, admitted, refused = threading.Barrier(60), [], []

        def call():
            everybody.wait()
            try:
                admitted.append(double("a"))
            except TooManyCalls as err:
                refused.append(err)

        threads = [threading.Thread(target=call) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(admitted), len(refused)), (10, 50))

    def test_without_cellserver(self):
        away = redis.Redis(unix_socket_path="/nonexistent/socket")
        double = self.function(1, client=away)
        self.assertEqual([double("a"), double("a")], ["aa", "aa"])
        with self.assertRaises(redis.ConnectionError):
            self.function(1, client=away, fail_closed=True)("a")

    def test_a_mistake_is_not_hidden(self):
        with self.assertRaisesRegex(redis.ResponseError, "limit must be between"):
            self.function(0)("a")


if __name__ == "__main__":
    HOST, PORT = sys.argv[1], int(sys.argv[2])
    program = unittest.main(argv=sys.argv[:1], testRunner=unittest.TextTestRunner(stream=sys.stdout), exit=False)
    sys.exit(not program.result.wasSuccessful())
