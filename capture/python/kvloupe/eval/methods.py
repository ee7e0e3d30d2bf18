"""Methods and budgets of a run."""
from ..errors import KvloupeError


def with_budgets(methods, budgets):
    """Each method at each budget; a SPEC that says its own is refused then. dense, beside which the others stand, is always one of them."""
    found = []
    for method in methods if "dense" in methods else ["dense", *methods]:
        if method == "dense" or not budgets:
            found.append(method)
        elif "budget_" in method:
            raise KvloupeError(f"--budgets does not go with {method}", "it says its budget itself", "leave one of both out")
        else:
            found += [f"{method}{',' if ':' in method else ':'}budget_tokens={budget}" for budget in budgets]
    return list(dict.fromkeys(found))


def budget_of(method):
    """-1 where the SPEC names none in tokens."""
    for item in method.partition(":")[2].split(","):
        name, _, value = item.partition("=")
        if name == "budget_tokens" and value.isdecimal():
            return int(value)
    return -1
