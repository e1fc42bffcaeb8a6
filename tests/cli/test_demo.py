import re

from opendp_tree.cli import main


def test_the_demo_shows_the_error_next_to_the_truth(tmp_path, capsys):
    assert main(["demo", "--plot", str(tmp_path / "flights.html")]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^all +33\d,\d\d\d +\S+ +336,776 +\S+$", shown, re.MULTILINE)
    for origin in ("EWR", "JFK", "LGA"):
        assert re.search(rf"^  {origin} +\S+ +\S+ +\S+ +\S+$", shown, re.MULTILINE)
    assert "Privacy: epsilon" in shown
    if (tmp_path / "flights.html").exists():
        assert f"The picture: {tmp_path / 'flights.html'}" in shown
    else:
        assert "pip install plotly" in shown
