"""Whoever looks for the tests of a module finds them under its name."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def mirrors(module):
    """Where the tests of a module may be; those of a theorem may be the exact ones of its privacy."""
    name = f"test_{module.name.lstrip('_')}"
    yield ROOT / "tests" / module.parent / name
    if module.parent.name == "theorems":
        yield ROOT / "tests" / "privacy" / name


def test_every_module_has_its_tests():
    package = ROOT / "opendp_tree"
    modules = [path.relative_to(package) for path in package.rglob("*.py")]
    plain = [module for module in modules if module.name not in ("__init__.py", "__main__.py")]
    lacking = {module for module in plain if not any(path.is_file() for path in mirrors(module))}
    assert sorted(map(str, lacking)) == []
    assert len(plain) > 100
