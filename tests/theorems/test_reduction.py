from fractions import Fraction

from opendp_tree.theorems.paper import Ladder, Round, classifier, reduction_loss

STEPS = [
    Round(*map(Fraction, (2900, 0.05, 0.25, 2000, 0.5, 1e-7))),
    Round(*map(Fraction, (3400, 0.1, 0.25, 2300, 0.25, 1e-8))),
]


def test_a_ladder_knows_its_promise():
    ladder = Ladder(Fraction(2500), tuple(STEPS))
    assert ladder.masses == (2500, 2900, 3400)
    assert ladder.eta == Fraction(0.05) + Fraction(0.1)
    assert ladder.alpha == max(Fraction(2900, 1500), Fraction(3400, 1725)) - 1
    assert ladder.is_connected()
    assert not Ladder(Fraction(2499), tuple(STEPS)).is_connected()
    assert not Ladder(Fraction(2500), tuple(reversed(STEPS))).is_connected()
    assert Ladder(Fraction(5), ()).alpha == 0


def test_losses_add_up():
    runs = [classifier(step, depth=9) for step in STEPS]
    epsilon, delta = reduction_loss(runs)
    assert epsilon == sum(run.loss()[0] for run in runs) <= Fraction(3, 4)
    assert max(run.loss()[1].lo for run in runs) < delta.lo <= delta.hi <= Fraction(1e-7) + Fraction(1e-8)
