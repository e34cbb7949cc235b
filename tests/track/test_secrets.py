"""No password in anything that is shown."""

from __future__ import annotations

import pytest

from bench.track.secrets import without_password, without_secrets


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://host:5000", "http://host:5000"),
        ("https://me:hunter2@host:5000/x", "https://me:***@host:5000/x"),
        ("postgresql://me:hunter2@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql+psycopg://me:hunt/er@2@host/db", "postgresql+psycopg://me:***@host/db"),
        (
            "postgresql://host/db?user=me&password=hunter2&sslmode=require",
            "postgresql://host/db?user=me&password=***&sslmode=require",
        ),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("sqlite:////home/me/a:b@c/mlflow.db", "sqlite:////home/me/a:b@c/mlflow.db"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_an_error_is_shown_without_passwords_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "from-the-environment")
    said = without_secrets(
        "could not connect to postgresql://me:p%40ss@host with 'p@ss', nor with from-the-environment",
        "postgresql://me:p%40ss@host/db",
    )
    assert said == "could not connect to postgresql://me:***@host with '***', nor with ***"


def test_a_password_of_three_letters_does_not_star_out_half_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "the")
    assert without_secrets("the server is down", "http://host") == "the server is down"
