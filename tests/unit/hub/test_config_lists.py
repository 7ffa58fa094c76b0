"""Lists in the Hub's configuration: one text is never taken for a list of its letters."""

import pytest
from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.hub.config_kubernetes import configure_kubernetes
from jupyter_gq.hub.config_parts import set_scopes, set_template_paths


@pytest.mark.parametrize("admins", ["root", b"root", ["ann", 5], 7])
def test_administrators_that_are_no_list_of_names_are_refused(admins):
    c = Config()
    with pytest.raises(TraitError, match=r"configure\(c, admins=...\): .* a list of texts is expected"):
        set_scopes(c, admins)
    assert "admin_users" not in c.Authenticator
    with pytest.raises(TraitError, match="a list of texts is expected"):
        configure_kubernetes(c, admins=admins)


def test_the_sentence_shows_the_list_that_was_meant():
    with pytest.raises(TraitError, match=r"'root' is given, .* such as \['root'\]\."):
        set_scopes(Config(), "root")


@pytest.mark.parametrize("admins", [["ann"], ("ann",), {"ann"}, {"ann": 1}.keys()])
def test_any_collection_of_names_is_taken(admins):
    c = Config()
    set_scopes(c, admins)
    assert c.Authenticator.admin_users == {"ann"}


@pytest.mark.parametrize(("section", "name"), [("Authenticator", "admin_users"), ("Spawner", "server_token_scopes")])
def test_a_setting_that_is_completed_is_no_text_either(section, name):
    c = Config()
    c[section][name] = "root"
    with pytest.raises(TraitError, match=f"c.{section}.{name}: 'root' is given"):
        set_scopes(c, ["ann"])


def test_scopes_of_the_user_role_are_no_text():
    c = Config()
    c.JupyterHub.load_roles = [{"name": "user", "scopes": "self"}]
    with pytest.raises(TraitError, match=r"scopes of the role user .*'self' is given"):
        set_scopes(c, ())


def test_folders_of_templates_are_no_text():
    c = Config()
    c.JupyterHub.template_paths = "/templates"
    with pytest.raises(TraitError, match="template_paths: '/templates' is given"):
        set_template_paths(c)
