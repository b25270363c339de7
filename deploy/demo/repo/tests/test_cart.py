import unittest

from shop.cart import Cart


class TestCart(unittest.TestCase):
    def test_adding_twice_adds_up(self):
        cart = Cart()
        cart.add("pencil", 2)
        cart.add("pencil", 3)
        self.assertEqual(cart.pieces(), 5)

    def test_a_quantity_below_one_is_refused(self):
        with self.assertRaises(ValueError):
            Cart().add("pencil", 0)


if __name__ == "__main__":
    unittest.main()
