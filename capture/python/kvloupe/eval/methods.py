"""Methods and budgets of a run."""
from ..errors import KvloupeError
from ..spec_facts import spec_facts, with_parameter


def with_budgets(methods, budgets):
    """Each method at each budget; a SPEC that says its own is refused then. dense, beside which the others stand, is always one of them."""
    if budgets and not any(method != "dense" for method in methods):
        raise KvloupeError("--budgets would change nothing", "dense has no budget, and no other method is named", "give --method, or leave it out")
    found = []
    for method in methods if "dense" in methods else ["dense", *methods]:
        if method == "dense" or not budgets:
            found.append(method)
        elif any(name.startswith("budget_") for name in spec_facts(method)["named"]):
            raise KvloupeError(f"--budgets does not go with {method}", "it says its budget itself", "leave one of both out")
        else:
            found += [with_parameter(method, "budget_tokens", budget) for budget in budgets]
    return list(dict.fromkeys(found))


def budget_of(method):
    """In tokens; -1 where the SPEC has none."""
    return int(spec_facts(method)["parameters"].get("budget_tokens", 0)) or -1


def check_likelihoods(methods, tasks):
    """A likelihood is prefill alone, so a method that selects in decoding alone scores as dense. tasks: names of those that ask for likelihoods."""
    idle = [method for method in methods if _keeps_all_in_prefill(method)]
    if idle and tasks:
        raise KvloupeError(f"{idle[0]} would change nothing in {tasks[0]}",
                           "that task asks for likelihoods, which are computed in prefill, where this method keeps all keys",
                           "leave one of both out, or let the method select in prefill, too")


def _keeps_all_in_prefill(method):
    parameters = {} if method == "dense" else spec_facts(method)["parameters"]
    return parameters.get("prefill") == "dense" or parameters.get("start") == "decode"  # of quest and h2o
