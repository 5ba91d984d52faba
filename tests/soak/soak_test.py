"""The judge of the soak test: it sees a slope, and no slope in noise."""

import random
import unittest

import soak


class Judge(unittest.TestCase):
    def misses(self, name, values):
        judged = soak.Soak(len(values) * soak.EVERY_S / 60, None)
        judged.daemons = {"postgres": None, "sqlite": None}
        judged.records["at"] = [soak.EVERY_S * n for n in range(len(values))]
        judged.records["events"] = [1000 * (n + 1) for n in range(len(values))]
        judged.records[name] = values
        return [one for one, _, last, most, _ in judged.growth() if last > most]

    def test_what_leaks_is_seen_whatever_the_noise(self):
        noise = random.Random(1)
        for name, start, step, spread in (("postgres rss", 30 * soak.MIB, 60_000, 4 * soak.MIB), ("sqlite descriptors", 50, 0.1, 5),
                                          ("postgres threads", 15, 0.03, 1), ("table reader", 65536, 3000, 30000),
                                          ("file orders.db", 2 * soak.MIB, 20_000, soak.MIB)):
            for leaks in (False, True):
                values = [start + noise.uniform(0, spread) + (step * n if leaks else 0) for n in range(300)]
                self.assertEqual(len(self.misses(name, values)), int(leaks), (name, leaks))

    def test_what_holds_a_day_may_grow_with_the_events_and_not_beyond(self):
        self.assertEqual(self.misses("table outbox", [500_000 * (n + 1) for n in range(300)]), [])
        self.assertEqual(self.misses("table outbox", [500_000 * (n + 1) * (1 + n / 300) for n in range(300)]),
                         ["table outbox per event"])

    def test_a_warm_up_is_no_leak(self):
        self.assertEqual(self.misses("postgres rss", [soak.MIB * min(n, 20) for n in range(300)]), [])


if __name__ == "__main__":
    unittest.main()
