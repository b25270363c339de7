"""A cart: items and how many of each."""


class Cart:
    def __init__(self):
        self.lines = {}

    def add(self, name, quantity=1):
        """Puts `quantity` pieces into the cart."""
        if quantity < 1:
            raise ValueError("quantity must be at least 1")
        self.lines[name] = self.lines.get(name, 0) + quantity

    def remove(self, name):
        """Takes an item out of the cart, however many there are."""
        self.lines.pop(name, None)

    def pieces(self):
        """Returns how many pieces are in the cart."""
        return sum(self.lines.values())
