"""Who sits before the page, with a cookie and without."""

from studio.api.owners import COOKIE
from studio.owner import LOCAL, Identity, Owner
from studio.ui.identity import page_owner, text_to_keep
from tests.studio.ui.conftest import page_request

IDENTITY = Identity(b"k" * 32, (), is_personal=True)
NEW = Owner("visitor:of this request alone")


def test_the_cookie_says_who_it_is():
    signed, other = IDENTITY.new_visitor(), IDENTITY.new_visitor()
    request = page_request({COOKIE: signed}, NEW)
    assert page_owner(IDENTITY, request, other) == IDENTITY.visitor(signed)
    assert page_owner(IDENTITY, request, "").voices_of == (IDENTITY.visitor(signed).id, LOCAL.id)
    assert text_to_keep(IDENTITY, request, other) == ""


def test_without_a_cookie_what_the_browser_kept_says_it():
    kept = text_to_keep(IDENTITY, page_request({}, NEW), "")
    for cookies in ({}, {COOKIE: "forged.signature"}):
        request = page_request(cookies, NEW)
        assert page_owner(IDENTITY, request, kept) == IDENTITY.visitor(kept)
        assert text_to_keep(IDENTITY, request, kept) == kept


def test_what_was_not_signed_here_is_nobody():
    request = page_request({}, NEW)
    for forged in ("", None, "x", IDENTITY.new_visitor() + "x", "visitor:somebody"):
        assert page_owner(IDENTITY, request, forged) == NEW
        assert IDENTITY.visitor(text_to_keep(IDENTITY, request, forged)) is not None
