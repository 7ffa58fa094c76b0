"""Phrases on how much space the jobs of users take, beside the limit of each user. All amounts are bytes."""

from collections.abc import Mapping

from jupyter_gq.domain.amount import format_bytes

#: Users that are named in the description of all users.
_MOST_NAMED = 10
#: Less is not worth a word.
_LEAST = 2**20


def describe_user(used: int, limit: int) -> str:
    """Return a phrase such as "12.3 GiB of at most 500 GiB"; "" if `used` is below 1 MiB.

    A `limit` of 0 means that there is no limit: the phrase is then "12.3 GiB".
    """
    if used < _LEAST:
        return ""
    return format_bytes(used) + (f" of at most {format_bytes(limit)}" if limit else "")


def describe_users(totals: Mapping[str, int], limit: int) -> str:
    """Return a phrase with the users whose jobs take most, such as "ann 3 GiB, bob 2 GiB; at most 4 GiB each".

    Only the first users are named, and the rest is counted: "5 others with less". Users below 1 MiB are left out; the
    result is "" if no user is left. A `limit` of 0 means that there is no limit.
    """
    used = {user: total for user, total in totals.items() if total >= _LEAST}
    ranked = sorted(used, key=lambda user: (-used[user], user))
    named = [f"{user} {format_bytes(used[user])}" for user in ranked[:_MOST_NAMED]]
    if len(ranked) > _MOST_NAMED:
        named.append(f"{len(ranked) - _MOST_NAMED} others with less")
    return ", ".join(named) + (f"; at most {format_bytes(limit)} each" if named and limit else "")
