"""Discounts, as whole percent of an amount."""

# From this many pieces on, the percent that is taken off.
BULK_STEPS = [(10, 5), (50, 10), (100, 20)]


def bulk_percent(quantity):
    """Returns the discount for buying `quantity` pieces of one item."""
    percent = 0
    for pieces, step in BULK_STEPS:
        if quantity > pieces:
            percent = step
    return percent


def coupon_percent(code):
    """Returns the discount of a coupon, 0 for one that nobody knows."""
    return {"WELCOME": 5, "FRIEND": 10}.get(code.upper(), 0)
