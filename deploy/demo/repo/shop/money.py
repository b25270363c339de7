"""Amounts are whole cents, so that sums are exact."""


def percent_of(cents, percent):
    """Returns `percent` of an amount, rounded half up to a cent."""
    return (cents * percent + 50) // 100


def show(cents):
    """Writes 12345 as 123.45."""
    return f"{cents // 100}.{cents % 100:02d}"
