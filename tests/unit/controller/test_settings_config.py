"""The settings: what a good config means, and what every bad one is told."""
# ruff: noqa: E501 - in the table of messages a line is a case

from dataclasses import replace

import pytest
from traitlets.config import Config

from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.controller.settings.sections import SECTIONS, TrainingQueues
from jupyter_gq.controller.settings.traits import SettingsError
from jupyter_gq.domain.amount import MiB, Seconds
from jupyter_gq.domain.pod_pool import ScaleUp
from jupyter_gq.domain.queue import BUILD_ROOT, build_queue
from jupyter_gq.scheduling.policy import MinRuntimeMethod, MinRuntimeRule, PlacementStrategy, UsageRule
from tests.fakes import a_node

from .world import story_settings

NODES = (a_node(2),)


#: The same, where the machine counts its CPU cores and memory.
COUNTED = (replace(a_node(2), cpu_milli=8000, memory=MiB(64 * 1024)),)


def build(nodes=NODES, **sections):
    return build_settings(Config(sections), nodes)


def queues(**entries):
    return {"TrainingQueues": {"queues": entries}}


BAD = [
    ({"FixedQuota": {"defualt": 1}}, r"c\.FixedQuota\.defualt = 1: there is no such trait\. Did you mean c\.FixedQuota\.default\?"),
    ({"FixedQuota": {"zzz": 1}}, "Use one of default, groups, users"),
    ({"FixedQuotas": {"default": 1}}, r"no such section\. Did you mean c\.FixedQuota\?"),
    ({"TrainingQueue": {"queues": {}}}, r"Did you mean c\.TrainingQueues\?"),
    ({"FixedQuota": {"default": "1.5"}}, r"c\.FixedQuota\.default = '1\.5': .*whole number of GPUs\. Use a fraction below 1, or 1 or 2"),
    ({"FixedQuota": {"default": -1}}, "is negative. Use 0 or more GPUs"),
    ({"FixedQuota": {"default": "0.1234"}}, "finer than a thousandth"),
    ({"FixedQuota": {"default": "much"}}, "not a number"),
    ({"FixedQuota": {"default": True}}, "not a number"),
    ({"FixedQuota": {"default": 3}}, r"c\.FixedQuota\.default = '3': the build pool 'default' has only 2 GPU\. Use at most 2"),
    ({"FixedQuota": {"groups": {"vision": 1.5}}}, r"c\.FixedQuota\.groups\['vision'\] = 1\.5"),
    ({"FixedQuota": {"groups": ["vision"]}}, "it is not a dict"),
    ({"FixedQuota": {"users": {"ann": "x"}}}, r"c\.FixedQuota\.users\['ann'\] = 'x'"),
    ({"FixedQuota": {"users": {7: 1}}}, "a key is not a name"),
    ({"FixedQuota": {"groups": {"a\x1b[31m": 1}}}, "the name has characters that are not shown"),
    ({"TrainingQueues": {"queues": {"\u202eredro": {}}}}, r"'\\u202eredro': the name has characters that are not shown"),
    ({"TrainingQueues": {"queues": {"a\nb": {}}}}, "Write the name without them"),
    ({"TrainingQueues": {"queues": {"q" * 256: {}}}}, "the name has 256 characters. Use at most 255"),
    ({"TrainingQueues": {"queues": {"a": {"users": ["bo\u2066b"]}}}}, "= 'bo.u2066b': the name has"),
    ({"TrainingQueues": {"queues": {"a": {"managers": "root"}}}}, "it is not a list of names"),
    ({"FixedQuota": {"users": {"ann": 2, "bob": "0.25"}}}, r"promised 2\.25 GPU together, .* has 2\. Lower them, .* = 1\.13 or more"),
    (queues(vision={"quotaa": 1}), r"c\.TrainingQueues\.queues\['vision'\]\['quotaa'\] = 1: .*Did you mean \"quota\"\?"),
    (queues(vision={"zzz": 1}), "Use one of quota, limit"),
    (queues(vision={"quota": -1}), r"\['vision'\]\['quota'\] = -1: it is negative"),
    (queues(vision={"quota": "0.0001"}), "finer than a thousandth"),
    (queues(vision={"quota": 1, "limit": "0.5"}), r"\['limit'\] = '0\.5': the limit is below the quota of 1\. Use at least 1, or None"),
    (queues(vision={"quota_cpus": "four"}), r"\['vision'\]\['quota_cpus'\] = 'four': it is not a number\. Write a number of cores"),
    (queues(vision={"limit_memory": -1}), r"\['limit_memory'\] = -1: it is negative"),
    (queues(vision={"quota_cpu": 4}), r"Did you mean \"quota_cpus\"\?"),
    (queues(vision={"quota_memory": "64Gi", "limit_memory": 32}), r"\['limit_memory'\] = 32: the limit is below the quota of 64 GiB\. Use at least 64 GiB, or None"),
    (queues(top={"quota_cpus": 4}, a={"quota_cpus": 4, "parent": "top"}, b={"quota_cpus": 2, "parent": "top"}),
     r"\['top'\]\['quota_cpus'\] = 4: the queues below it are promised 6 CPU cores \(a 4 CPU cores \+ b 2 CPU cores\)\. Use at least 6"),
    (queues(top={"quota_cpus": 6}, mid={"parent": "top"}, a={"quota_cpus": 7, "parent": "mid"}),
     r"\['top'\]\['quota_cpus'\] = 6: the queues below it are promised 7 CPU cores \(mid 7 CPU cores\)\. Use at least 7"),
    (queues(top={"limit_memory": 16}, a={"quota_memory": 32, "parent": "top"}),
     r"\['top'\]\['limit_memory'\] = 16: the queues below it are promised 32 GiB \(a 32 GiB\)\. Use at least 32 GiB, or lower theirs"),
    (queues(top={}, a={"quota_cpus": 9, "parent": "top"}), r"queues top are promised 9 CPU cores together, but the nodes have 8 CPU cores\."),
    (queues(vision={"quota_cpus": 6}, nlp={"quota_cpus": 4}), r"vision, nlp are promised 10 CPU cores together, but the nodes have 8 CPU cores\. Lower their quota_cpus"),
    (queues(vision={"default_memory": 65}), r"\['vision'\]\['default_memory'\] = 65: no node has more than 64 GiB\. Use less"),
    (queues(top={"default_cpus": 4}, a={"parent": "top", "limit_cpus": 2}), r"\['top'\]\['default_cpus'\] = 4: the limit of a is 2 CPU cores"),
    (queues(vision={"parent": "science"}), r"\['parent'\] = 'science': there is no queue of that name"),
    (queues(vision={"parent": 3}), "it is not a name"),
    (queues(a={"parent": "b"}, b={"parent": "c"}, c={"parent": "a"}), r"above one another: a -> b -> c -> a"),
    (queues(a={"parent": "a"}), "a -> a"),
    (queues(vision={"quota": 1.5}, nlp={"quota": 1}), r"queues vision, nlp are promised 2\.5 GPU together, but the pool 'default' has 2"),
    (queues(top={"quota": 1}, a={"quota": 1, "parent": "top"}, b={"quota": "0.5", "parent": "top"}),
     r"\['top'\]\['quota'\] = 1: the queues below it are promised 1\.5 GPU \(a 1 \+ b 0\.5\)\. Use at least 1\.5"),
    (queues(vision={"over_quota_weight": -1}), "whole number, at least 0"),
    (queues(vision={"priority": "high"}), "use a whole number|Use a whole number"),
    (queues(vision={"reclaim_min_runtime": "10m"}), r"\['reclaim_min_runtime'\] = '10m': it is not a length of time\. Use a number of seconds"),
    (queues(vision={"preempt_min_runtime": -1}), r"\['vision'\]\['preempt_min_runtime'\] = -1: .* or None to leave it"),
    (queues(vision={"users": "ann"}), r"not a list of names\. Write \['ann'\]"),
    (queues(vision={"managers": "ann"}), r"not a list of names\. Write \['ann'\]"),
    (queues(vision={"manager_groups": 3}), r"not a list of names\. Write \['group'\]"),
    (queues(vision={"max_priority": -1}), r"\['max_priority'\] = -1: it is not a whole number, at least 0"),
    (queues(vision={"max_priority": 101}), r"= 101: it is above 100\. Use a whole number from 0 to 100"),
    (queues(vision={"max_priority": True}), "whole number, at least 0"),
    (queues(build={"quota": 1}), "taken by notebooks"),
    (queues(**{"a/b": {"quota": 1}}), "taken by notebooks"),
    (queues(vision=1), r"\['vision'\] = 1: it is not a dict"),
    ({"TrainingQueues": {"grace": -1}}, r"c\.TrainingQueues\.grace = -1: .*number of seconds, at least 0"),
    ({"TrainingQueues": {"max_bundle_mib": 0}}, "at least 0.001"),
    ({"TrainingQueues": {"grace": 3601}},
     r"c\.TrainingQueues\.grace = 3601: it is above 3600\. Use a number of seconds, at least 0 and at most 3600\."),
    ({"TrainingQueues": {"cancel_grace": 86400}}, "it is above 3600"),
    ({"TrainingQueues": {"unused_after": -1}}, "it is below 0 or endless"),
    ({"TrainingQueues": {"grace": float("inf")}}, "it is below 0 or endless"),
    ({"TrainingQueues": {"images": ["torch:2"]}}, "it is not a dict. Write a dict such as"),
    ({"TrainingQueues": {"images": {"PyTorch": "torch 2"}}}, r"c\.TrainingQueues\.images\['PyTorch'\] = 'torch 2': it is no reference to an image\. Write a reference such as registry"),
    ({"TrainingQueues": {"images": {"PyTorch": None}}}, "it is no reference to an image"),
    ({"TrainingQueues": {"images": {"PyTorch ": "torch:2"}}}, "begins or ends with spaces"),
    ({"TrainingQueues": {"images": {"": "torch:2"}}}, "a key is not a name"),
    ({"TrainingQueues": {"images": {f"torch {n}": "torch:2" for n in range(101)}}}, "it has 101 images. Offer at most 100"),
    ({"TrainingQueues": {"secrets": "HF_TOKEN"}}, "it is not a list"),
    ({"TrainingQueues": {"secrets": ["HF TOKEN"]}}, "'HF TOKEN' is no name of a variable"),
    ({"TrainingQueues": {"keep_finished_days": -1}}, "it is below 0 or endless. Use a number of days, at least 0"),
    ({"TrainingQueues": {"keep_finished_days": None}}, "it is not a number"),
    ({"Pools": {"pools": {"build": {"devices": 3}}}}, r"c\.Pools\.pools\['build'\]\['devices'\] = 3: it wants 3 devices, but there are 2\. Use at most 2"),
    ({"Pools": {"pools": {"build": {"devices": 1}, "train": {"devices": 2}}}}, "there are 2, of which other pools have 1. Use at most 1"),
    ({"Pools": {"pools": {"build": {"devices": 2}, "train": {"devices": 1}}}}, "it wants 1 device, but there are 2, .* Use one pool for notebooks and jobs"),
    ({"Pools": {"pools": {"build": {"devices": [0]}, "train": {"devices": [0]}}}}, "0 is already in the pool 'build'"),
    ({"Pools": {"pools": {"build": {"devices": [5]}}}}, r"there is no device 5\. Devices here: 0 \(GPU-sim-box-0\)"),
    ({"Pools": {"pools": {"build": {"devices": -1}}}}, "it is negative"),
    ({"Pools": {"pools": {"build": {"devices": "all"}}}}, "neither a number nor a list"),
    ({"Pools": {"pools": {"build": {"device": 1}}}}, "there is no such key"),
    ({"Pools": {"pools": {"build": {}}}}, 'it has no "devices"'),
    ({"Pools": {"pools": {"a": {"devices": 1}, "b": {"devices": 1}}}}, r"c\.Pools\.build = '': it is not clear which pool it is\. Set c\.Pools\.build to one of 'a', 'b'"),
    ({"Pools": {"build": "gpu"}}, "there is no such pool. Use one of 'default'"),
    ({"Pools": {"over_subscription": 0.5}}, "at least 1"),
    ({"Pools": {"build": 3}}, "it is not text"),
    ({"IdlePolicy": {"after": "30m"}}, r"c\.IdlePolicy\.after = '30m': it is not a number\. Use a number of seconds"),
    ({"IdlePolicy": {"after": 300}}, r"c\.IdlePolicy\.warning = 600\.0: the countdown is longer than the 300 s"),
    ({"IdlePolicy": {"always": "yes"}}, "neither True nor False"),
    ({"IdlePolicy": {"suspend": "real"}}, r"c\.IdlePolicy\.suspend = 'real': it is neither True nor False nor None"),
    ({"Fairness": {"reclaim_min_runtime": -5}}, r"c\.Fairness\.reclaim_min_runtime = -5: .*number of seconds, at least 0"),
    ({"Fairness": {"half_life": "1w"}}, r"c\.Fairness\.half_life = '1w': it is not a number\. Use a number of seconds \(0: off\), at least 0"),
    ({"Fairness": {"reclaim_margin": 0.5}}, "at least 1"),
    ({"LongWaits": {"reserve_after": -1}}, r"c\.LongWaits\.reserve_after = -1: .*number of seconds, at least 0"),
    ({"LongWaits": {"move": "yes"}}, r"c\.LongWaits\.move = .yes.: "),
    ({"Fairness": {"min_runtime_method": "all"}}, r'= .all.: it is not known\. Use one of "queue", "lca"'),
    ({"Placement": {"policy": "best"}}, r'c\.Placement\.policy = .best.: it is not known\. Use one of "pack", "spread", "fragmentation"'),
    ({"Placement": {"fractions": "best"}}, r'c\.Placement\.fractions = .best.: it is not known\. Use one of "pack", "spread", "fragmentation"'),
]  # fmt: skip


@pytest.mark.parametrize(("sections", "words"), BAD)
def test_a_bad_value_is_refused_with_trait_value_and_fix(sections, words):
    with pytest.raises(SettingsError, match=words) as refusal:
        build(COUNTED, **sections)
    assert str(refusal.value).startswith("c.")


def test_nothing_set_is_a_good_config():
    settings = build()
    assert settings.fixed_quota("ann", frozenset()) == 250
    assert (settings.pools, settings.build_pool, settings.train_pool) == (("default",), "default", "default")
    assert settings.leaves() == ()
    assert (settings.policy.idle.after, settings.policy.placement) == (1800, PlacementStrategy.PACK)
    assert settings.policy.fraction_placement is PlacementStrategy.FRAGMENTATION
    assert (settings.grace, settings.max_bundle_bytes) == (30, 20 * 1024 * 1024)


def test_least_run_times_come_from_the_queue_and_from_the_section_for_all():
    settings = build(
        **queues(vision={"reclaim_min_runtime": 60}, nlp={"preempt_min_runtime": 0}),
        Fairness={"reclaim_min_runtime": 600, "preempt_min_runtime": 30, "min_runtime_method": "queue"},
    )
    assert settings.policy.min_runtime == MinRuntimeRule(
        method=MinRuntimeMethod.QUEUE, preempt=Seconds(30), reclaim=Seconds(600)
    )
    vision, nlp = (entry.queue for entry in settings.training)
    assert (vision.reclaim_min_runtime, vision.preempt_min_runtime) == (60, None)
    assert (nlp.reclaim_min_runtime, nlp.preempt_min_runtime) == (None, 0)


def test_past_use_counts_only_with_a_half_life():
    assert build().policy.usage == UsageRule()
    settings = build(Fairness={"half_life": 3600, "usage_weight": 2, "entry_cost": 60, "reclaim_margin": 1.5})
    assert settings.policy.usage == UsageRule(half_life=Seconds(3600), weight=2.0, entry_cost=Seconds(60))
    assert settings.policy.reclaim_margin == 1.5


def test_long_waits():
    policy = build(LongWaits={"reserve_after": 60, "move": False, "moved_after": 5}).policy
    assert (policy.reserve_after, policy.consolidate, policy.moved_after) == (60, False, 5)
    assert build(LongWaits={"reserve_after": 0}).policy.reserve_after is None
    assert build().policy.reserve_after == 1800


@pytest.mark.parametrize("nodes", [(), (a_node(0),)])
def test_a_machine_without_devices_still_starts(nodes):
    """Missing hardware is a state: notebooks without GPU work. With one GPU too few, the same file is refused."""
    quotas = {"FixedQuota": {"default": "0.25", "users": {"ann": 1, "bob": 2}}, **queues(vision={"quota": 2})}
    settings = build(nodes=nodes, **quotas)
    assert settings.fixed_quota("carol", frozenset()) == 250
    for each in ({"FixedQuota": quotas["FixedQuota"]}, queues(vision={"quota": 2})):
        with pytest.raises(SettingsError):
            build(nodes=(a_node(1),), **each)


def test_other_sections_of_the_config_are_none_of_ours():
    build(JupyterHub={"bind_url": "x"}, Spawner={"default_url": "/lab"}, PAMAuthenticator={"service": "x"})


def test_users_come_before_groups_and_the_largest_group_counts():
    settings = build(FixedQuota={"default": "0.1", "groups": {"a": "0.5", "b": 1}, "users": {"ann": 0}})
    assert settings.fixed_quota("ann", frozenset({"a", "b"})) == 0
    assert settings.fixed_quota("bob", frozenset({"a", "b"})) == 1000
    assert settings.fixed_quota("bob", frozenset({"a"})) == 500
    assert settings.fixed_quota("bob", frozenset({"c"})) == 100


def test_a_value_that_the_config_file_grew_step_by_step_counts():
    config = Config()
    config.FixedQuota.users.update({"ann": "0.5"})
    assert build_settings(config, NODES).fixed_quota("ann", frozenset()) == 500


def test_the_tree_has_a_leaf_for_each_user_whose_limit_is_the_quota():
    settings = story_settings()
    tree = {queue.name: queue for queue in settings.queues({"ann": frozenset({"vision"}), "bob": frozenset()})}
    assert set(tree) == {BUILD_ROOT, build_queue("ann"), build_queue("bob"), "vision", "nlp"}
    leaf = tree[build_queue("ann")]
    assert (leaf.quota, leaf.limit, leaf.over_quota_weight, leaf.parent, leaf.pool) == (
        500,
        500,
        0,
        BUILD_ROOT,
        "build",
    )
    assert (tree[BUILD_ROOT].quota, tree[BUILD_ROOT].limit) == (750, None)
    assert (tree["vision"].pool, tree["vision"].quota, tree["vision"].limit) == ("train", 500, None)


def test_a_limit_may_equal_the_quota():
    (entry,) = build(**queues(vision={"quota": 1, "limit": 1})).training
    assert entry.queue.limit == entry.queue.quota == 1000


def test_a_parent_without_a_quota_has_that_of_its_children():
    settings = build(**queues(top={}, a={"quota": 1, "parent": "top"}, b={"quota": "0.5", "parent": "top"}))
    tree = {queue.name: queue for queue in settings.training_tree()}
    assert tree["top"].quota == 1500
    assert settings.training_tree()[0].name == "top"


def test_who_may_send_jobs_where():
    settings = build(
        **queues(
            open={},
            by_name={"users": ["ann"]},
            by_group={"groups": ["nlp"]},
            top={},
            below={"parent": "top", "users": ["bob"]},
        )
    )
    assert set(settings.leaves_of("ann", frozenset())) == {"open", "by_name"}
    assert set(settings.leaves_of("bob", frozenset({"nlp"}))) == {"open", "by_group", "below"}


def test_a_queue_that_names_nobody_is_open_to_those_of_the_nearest_queue_above_that_names_some():
    settings = build(
        **queues(
            lab={"groups": ["lab"]},
            team={"parent": "lab"},
            members={"parent": "team"},
            guests={"parent": "team", "users": ["eve"]},
            free={},
        )
    )
    assert set(settings.leaves_of("ann", frozenset({"lab"}))) == {"members", "free"}
    assert set(settings.leaves_of("eve", frozenset())) == {"guests", "free"}
    assert set(settings.leaves_of("bob", frozenset())) == {"free"}


def test_the_leaves_below_a_queue_are_those_that_take_jobs():
    settings = build(**queues(lab={}, vision={"parent": "lab"}, nlp={"parent": "lab"}, other={}))
    assert settings.leaves_below("lab") == {"vision", "nlp"}
    assert settings.leaves_below("nlp") == {"nlp"}
    assert settings.leaves_below("none") == frozenset()


def test_managers_and_the_highest_priority_come_from_the_queue_above():
    settings = build(
        **queues(
            top={"max_priority": 20, "managers": ["ann"], "manager_groups": ["leads"]},
            a={"parent": "top", "users": ["bob"]},
            b={"parent": "top", "max_priority": 0, "managers": ["bob"]},
            other={},
        )
    )
    highest = {
        caller.user: {entry.queue.name: entry.highest_priority(caller) for entry in settings.leaves()}
        for caller in (
            Caller(user="ann"),
            Caller(user="bob"),
            Caller(user="carol", groups=frozenset({"leads"})),
            Caller(user="root", admin=True),
        )
    }
    assert highest == {
        "ann": {"a": 100, "b": 100, "other": 0},
        "bob": {"a": 20, "b": 100, "other": 0},
        "carol": {"a": 100, "b": 100, "other": 0},
        "root": {"a": 100, "b": 100, "other": 100},
    }


def test_managers_may_send_jobs_to_the_queues_that_they_manage():
    settings = build(**queues(top={"managers": ["ann"]}, a={"parent": "top", "users": ["bob"]}))
    assert settings.leaves_of("ann", frozenset()) == ("a",)
    assert settings.leaves_of("carol", frozenset()) == ()


def test_pools_that_name_their_devices_take_them_first():
    settings = build(Pools={"pools": {"build": {"devices": 1}, "train": {"devices": ["GPU-sim-box-0"]}}})
    assert settings.device_pool == {"GPU-sim-box-0": "train", "GPU-sim-box-1": "build"}
    assert (settings.build_pool, settings.train_pool) == ("build", "train")


def test_a_device_of_no_pool_is_left_out():
    settings = build(Pools={"pools": {"shared": {"devices": [1]}}})
    (node,) = settings.nodes(NODES)
    assert [(device.id, device.pool) for device in node.devices] == [("GPU-sim-box-1", "shared")]
    assert settings.build_pool == settings.train_pool == "shared"


def test_a_grace_of_an_hour_is_the_longest():
    assert TrainingQueues(grace=3600).grace == 3600


@pytest.mark.parametrize("section", SECTIONS)
def test_every_trait_says_its_effect_and_its_default(section):
    for name, trait in section.class_traits(config=True).items():
        if trait.this_class is section:
            assert "Default:" in trait.help, f"{section.__name__}.{name}"


def test_pools_of_nodes_keep_the_pool_that_the_backend_says_and_are_not_held_against_todays_devices():
    pools = {"build": {"nodes": {"gpu": "a"}, "hold": "always"}, "train": {"nodes": {}, "provider": "hami"}}
    settings = build(Pools={"pools": pools}, **queues(vision={"quota": 4000}))
    assert [(pool.name, pool.hold.value, pool.provider.value) for pool in settings.pod_pools] == [
        ("build", "always", "reservation"),
        ("train", "demand", "hami"),
    ]
    nodes = (replace(NODES[0], devices=tuple(replace(d, pool="train") for d in NODES[0].devices)),)
    assert settings.nodes(nodes) == nodes
    assert not settings.nodes(NODES)[0].devices  # the backend put them into a pool that is not there


@pytest.mark.parametrize(
    "sections", [{"Pools": {"pools": {"all": {"nodes": {}}}}}, {"SchedulerService": {"backend": "kubernetes"}}]
)
def test_over_subscription_is_refused_where_the_size_of_a_pool_is_not_known(sections):
    sections["Pools"] = {**sections.get("Pools", {}), "over_subscription": 1.5}
    with pytest.raises(SettingsError, match=r"over_subscription = 1\.5: on Kubernetes nodes .* Remove the line\."):
        build(**sections)


def test_a_pool_of_nodes_may_grow():
    pools = {"build": {"nodes": {"gpu": "a"}, "scale_up": {"gpus": 8, "nodes": 4, "cpus": 64, "memory": "512G"}}}
    pools["train"] = {"nodes": {}, "scale_up": {"gpus": 1, "nodes": 2}}
    grown = [pool.scale_up for pool in build(Pools={"pools": pools}).pod_pools]
    assert grown == [ScaleUp(gpus=8, nodes=4, cpu_milli=64_000, memory=512 * 1024), ScaleUp(gpus=1, nodes=2)]
    pools["train"]["scale_up"] = None
    assert build(Pools={"pools": pools}).pod_pools[1].scale_up is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"nodes": {}, "devices": 1}, "cannot be mixed"),
        ({"nodes": {}, "provder": "hami"}, "there is no such key"),
        ({"nodes": "build"}, "not labels of nodes"),
        ({"nodes": {}, "resource": "gpu"}, "not the name of a resource"),
        ({"nodes": {}, "provider": "mps"}, "Use one of 'reservation', 'hami', 'kai'"),
        ({"nodes": {}, "visibility": True}, "there is no such value"),
        ({"nodes": {}, "tolerations": {"key": "x"}}, "not tolerations"),
        ({"nodes": {}, "scale_up": 4}, "does not say what a new node has"),
        ({"nodes": {}, "scale_up": {"gpus": 8}}, 'it has no "nodes". Add the most nodes'),
        ({"nodes": {}, "scale_up": {"nodes": 4}}, 'it has no "gpus"'),
        (
            {"nodes": {}, "scale_up": {"gpus": 0, "nodes": 4}},
            r"\['scale_up'\]\['gpus'\] = 0: it is no whole number above 0",
        ),
        ({"nodes": {}, "scale_up": {"gpus": 8, "nodes": True}}, r"\['nodes'\] = True: it is no whole number above 0"),
        ({"nodes": {}, "scale_up": {"gpus": 8, "nodes": 4, "cpu": 1}}, "no such key. Use gpus, nodes, cpus, memory"),
        (
            {"nodes": {}, "scale_up": {"gpus": 8, "nodes": 4, "cpus": "many"}},
            r"\['cpus'\] = 'many': it is not a number",
        ),
        ({"nodes": {}, "scale_up": {"gpus": 8, "nodes": 4, "memory": 0}}, "a node without any could run nothing"),
        ({"nodes": {}, "provider": "hami", "scale_up": {"gpus": 8, "nodes": 4}}, 'provider "hami" cannot grow'),
    ],
)
def test_a_pool_of_nodes_that_cannot_be_is_refused(entry, message):
    with pytest.raises(SettingsError, match=message):
        build(Pools={"pools": {"build": {"nodes": {}}, "train": entry}})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"visibility": "env-cdi"}, 'it has no "nodes".*add the labels of its nodes'),
        ({"devices": 1}, "on Kubernetes there are only those of nodes"),
    ],
)
def test_on_kubernetes_every_pool_is_one_of_nodes(entry, message):
    with pytest.raises(SettingsError, match=f"(?i){message}"):
        build(Pools={"pools": {"build": entry}}, SchedulerService={"backend": "kubernetes"})


def test_queues_say_of_cpu_and_memory_what_they_say_of_gpus():
    entry = {"quota_cpus": 4, "limit_cpus": "6", "quota_memory": "16 GiB", "limit_memory": 32}
    (entry,) = build(COUNTED, **queues(vision=entry)).training
    queue = entry.queue
    assert (queue.cpu_quota, queue.cpu_limit, queue.memory_quota, queue.memory_limit) == (4000, 6000, 16384, 32768)


def test_a_queue_that_says_nothing_of_them_has_neither_quota_nor_limit():
    (entry,) = build(COUNTED, **queues(vision={})).training
    queue = entry.queue
    assert (queue.cpu_quota, queue.cpu_limit, queue.memory_quota, queue.memory_limit) == (None, None, None, None)
    assert (entry.defaults.cpu_milli, entry.defaults.memory) == (None, None)


def test_what_jobs_get_that_name_nothing_comes_from_the_nearest_queue_that_says_it():
    settings = build(
        COUNTED,
        **queues(
            top={"default_cpus": 2, "default_memory": 8},
            a={"parent": "top", "default_cpus": 4},
            b={"parent": "top", "default_memory": 0},
        ),
    )
    defaults = {name: settings.defaults_of(name) for name in ("top", "a", "b")}
    assert {name: (each.cpu_milli, each.memory) for name, each in defaults.items()} == {
        "top": (2000, 8192),
        "a": (4000, 8192),
        "b": (2000, 0),
    }


def test_quotas_of_cpu_are_not_held_against_nodes_that_come_and_go():
    pools = {"pools": {"train": {"nodes": {}}}}
    settings = build(COUNTED, Pools=pools, **queues(vision={"quota_cpus": 800}))
    assert settings.training[0].queue.cpu_quota == 800_000


def test_what_just_fits_is_accepted():
    settings = build(
        COUNTED,
        **queues(
            top={"quota_cpus": 6, "limit_cpus": 6, "default_cpus": 6},
            a={"parent": "top", "quota_cpus": 4},
            b={"parent": "top"},
            c={"parent": "b", "quota_cpus": 2},
            nlp={"quota_cpus": 2, "default_memory": 64},
        ),
    )
    assert [entry.queue.cpu_quota for entry in settings.training] == [6000, 2000, 4000, None, 2000]
