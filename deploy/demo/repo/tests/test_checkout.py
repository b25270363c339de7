import unittest

from shop.cart import Cart
from shop.checkout import line_total, receipt, total


class TestCheckout(unittest.TestCase):
    def test_one_piece_costs_its_price(self):
        self.assertEqual(line_total("notebook", 1), 450)

    def test_sixty_pieces_are_ten_percent_cheaper(self):
        self.assertEqual(line_total("pencil", 60), 6480)

    def test_a_coupon_is_taken_off_the_sum(self):
        cart = Cart()
        cart.add("backpack")
        self.assertEqual(total(cart, "friend"), 5310)

    def test_a_receipt_ends_with_the_total(self):
        cart = Cart()
        cart.add("pencil", 2)
        self.assertTrue(receipt(cart).endswith("2.40"))


if __name__ == "__main__":
    unittest.main()
