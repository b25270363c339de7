import unittest

from shop.discounts import bulk_percent, coupon_percent


class TestDiscounts(unittest.TestCase):
    def test_nine_pieces_have_no_discount(self):
        self.assertEqual(bulk_percent(9), 0)

    def test_ten_pieces_are_five_percent_cheaper(self):
        self.assertEqual(bulk_percent(10), 5)

    def test_more_pieces_are_cheaper_still(self):
        self.assertEqual(bulk_percent(60), 10)
        self.assertEqual(bulk_percent(200), 20)

    def test_an_unknown_coupon_gives_nothing(self):
        self.assertEqual(coupon_percent("NOPE"), 0)


if __name__ == "__main__":
    unittest.main()
