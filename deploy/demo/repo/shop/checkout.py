"""From a cart to a sum."""

from shop.catalogue import unit_price
from shop.discounts import bulk_percent, coupon_percent
from shop.money import percent_of, show


def line_total(name, quantity):
    """Returns the price of one line of the cart in cents, its bulk discount taken off."""
    full = unit_price(name) * quantity
    return full - percent_of(full, bulk_percent(quantity))


def total(cart, coupon=""):
    """Returns the price of the whole cart in cents."""
    amount = sum(line_total(name, quantity) for name, quantity in cart.lines.items())
    return amount - percent_of(amount, coupon_percent(coupon))


def receipt(cart, coupon=""):
    """Returns the receipt as text, a line for each item."""
    lines = [f"{quantity:>4} {name:<12} {show(line_total(name, quantity)):>10}" for name, quantity in cart.lines.items()]
    lines.append(f"{'':>4} {'total':<12} {show(total(cart, coupon)):>10}")
    return "\n".join(lines)
