"""Where each attack of docs/kafka-security.md, letter F, is tried: the fact, its parts, the tests that show each.

`test_attacks.py` checks that every fact of the page is here, and every test that is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LOGINS: Final = "server/test_logins.py::"
_LOGIN: Final = "security/test_login.py::"
_SCRAM: Final = "security/test_scram.py::"
_TOKENS: Final = "security/test_tokens.py::"
_STORES: Final = "security/tls/test_stores.py::"
_TLS: Final = "security/tls/test_tls_attacks.py::"
_TRANSPORT: Final = "security/tls/test_tls_transport.py::"
_STATES: Final = "security/test_states.py::"
_SESSIONS: Final = "server/test_sessions.py::"
_HELLO: Final = "security/tls/test_tls_hello.py::"
_TABLE: Final = "access/test_table.py::"
_ACCESS: Final = "server/test_access_daemon.py::"
_SECRETS: Final = "security/test_secrets.py::"
_FUZZ: Final = "security/test_fuzz.py::test_no_case_does_more_than_it_may"
_CROWD: Final = "long/test_attacks.py::test_strangers_cost_little_and_others_notice_nothing"
_SEALED: Final = "security/test_acl_store.py::"
_USERS: Final = "security/test_scram_users.py::"
_RIGHTS: Final = "server/test_rights.py::"
_AT_RUN_TIME: Final = "server/test_listeners_at_run_time.py::"

ATTACKS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "F1": {
        "one frame, grown as it comes": (
            _LOGINS + "test_a_frame_over_the_bound_ends_the_login",
            "server/test_strangers.py::test_when_all_hold_too_much_the_one_that_holds_the_most_is_ended",
        ),
        "one TLS object": (
            _TRANSPORT + "test_a_silent_client_costs_none_of_openssls_memory",
            _HELLO + "test_half_a_hello_costs_what_it_holds_and_none_of_openssls_memory",
            _HELLO + "test_a_hello_that_claims_too_much_never_reaches_openssl",
            _HELLO + "test_a_second_hello_that_claims_too_much_never_reaches_openssl",
            _HELLO + "test_a_certificate_that_claims_too_much_never_reaches_openssl",
        ),
        "10,000 that claim 512 KiB": (_CROWD,),
        "512 KiB of names amid a login": (
            _LOGIN + "test_only_a_small_request_in_the_exchange_is_decoded_and_answered",
            "security/test_requests_of_strangers.py::"
            "test_half_a_mib_of_names_costs_the_one_who_asks_its_connection_and_nobody_else_anything",
        ),
    },
    "F2": {
        "no hello": (
            _LOGINS + "test_a_stranger_is_closed_in_time",
            "security/tls/test_tls_daemon.py::test_a_handshake_that_is_not_done_in_time_ends",
        ),
        "by the byte, without end": (
            "security/test_clocks.py::test_a_stranger_that_keeps_on_sending_is_closed_in_time",
        ),
        "TLS without SASL": (
            "security/tls/test_tls_daemon.py::test_tls_without_a_login_ends_by_the_same_clock",
        ),
        "half of max.connections": (_LOGINS + "test_strangers_take_at_most_half_of_all_connections",),
    },
    "F3": {
        "a delay for each connection": (_LOGINS + "test_a_failure_is_answered_late",),
        "doubled by address and user": (
            "security/test_failed_logins.py::test_the_delay_is_doubled_up_to_its_bound_and_never_cut",
            "security/test_failed_logins.py::test_each_user_of_each_address_has_failures_of_its_own",
        ),
        "forgotten in a minute": ("security/test_failed_logins.py::test_a_failure_is_forgotten_in_a_minute",),
        "a bounded table": (
            "security/test_failed_logins.py::test_the_table_is_bounded_and_the_longest_silent_goes_first",
        ),
        "no lock-out": (
            _LOGINS + "test_a_password_tried_again_fails_later_each_time_and_the_right_one_is_not_held_back",
        ),
    },
    "F4": {
        "no secret by its bytes": (
            "security/test_constant_time.py::test_no_secret_is_compared_by_its_bytes",
        ),
    },
    "F5": {
        "old proofs": (_SCRAM + "test_a_proof_is_good_for_one_exchange",),
        "other nonces": (_SCRAM + "test_the_whole_nonce_comes_back",),
        "short proofs": (_SCRAM + "test_a_last_message_that_is_not_right_fails_for_good",),
        "final first": (_SCRAM + "test_the_last_message_first_is_none",),
        "two firsts": (_SCRAM + "test_a_last_message_that_is_not_right_fails_for_good",),
        "NULs": (_SCRAM + "test_a_first_message_is_one_where_it_is_one_to_kafka",),
        "names of 512 KiB": (_SCRAM + "test_half_a_megabyte_is_read_once",),
        "any damage": (_FUZZ,),
    },
    "F6": {
        "JAAS": (
            _FUZZ,
            "security/test_jaas.py::test_any_text_is_read_or_refused_in_one_sentence_without_its_content",
        ),
        "JKS, PKCS12, PEM": (
            _FUZZ,
            _STORES + "test_any_bytes_are_a_jks_store_or_one_problem",
            _STORES + "test_any_text_is_pem_or_one_problem",
        ),
        "rules": (_FUZZ, "security/tls/test_names.py::test_any_text_is_a_rule_or_refused"),
        "one sentence and exit 2": (
            "security/tls/test_tls_start.py::test_a_store_that_cannot_be_used_is_one_sentence_and_exit_status_2",
        ),
    },
    "F7": {
        "none": (_TOKENS + "test_forged_none_is_refused",),
        "HS256 with the public key": (_TOKENS + "test_forged_hmac_with_a_public_key_is_refused",),
        "jku, jwk, x5u": (_TOKENS + "test_forged_keys_of_the_header_are_not_looked_at",),
        "crit": (_TOKENS + "test_forged_critical_headers_are_refused",),
        "double claims": (_TOKENS + "test_forged_double_claims_are_refused",),
        "exp 1e300, NaN": (_TOKENS + "test_forged_times_are_refused",),
        "deep or large JSON": (_TOKENS + "test_forged_json_of_great_depth_or_size_is_refused",),
        "kid with a path": (_TOKENS + "test_forged_kids_are_names_and_no_paths",),
        "any damage": (_FUZZ,),
    },
    "F8": {
        "old versions": (
            _TLS + "test_an_old_version_is_met_by_an_alert",
            _TLS + "test_ssl_2_and_3_are_refused",
        ),
        "renegotiation": (_TLS + "test_renegotiation_is_refused",),
        "key-update floods": (
            _TLS + "test_a_flood_of_key_updates_costs_nothing",
            _TRANSPORT + "test_a_peer_that_makes_openssl_answer_and_does_not_read_is_read_no_more",
        ),
        "chains of 100": (_TLS + "test_a_long_chain_is_taken_or_met_by_an_alert_and_holds_up_nobody",),
        "expired, wrong usage": (_TLS + "test_a_certificate_that_is_not_good_is_met_by_an_alert",),
        "a plaintext storm": (_TLS + "test_a_storm_of_plaintext_is_a_storm_of_alerts",),
        "no early data": (_TLS + "test_there_is_no_early_data_and_nothing_to_resume",),
    },
    "F9": {
        "every API x version x state": (
            _STATES + "test_no_request_runs_before_its_client_is_known",
            _LOGIN + "test_every_api_in_the_exchange_ends_it",
            _LOGIN + "test_every_whole_request_in_the_exchange_is_refused_and_answered",
        ),
        "login and requests in one segment": (_STATES + "test_a_login_and_requests_in_one_segment",),
        "re-authentication in a full pipeline": (
            _SESSIONS + "test_a_pipeline_full_of_requests_around_a_login",
            _STATES + "test_a_login_that_is_repeated_and_fails_amid_a_pipeline_runs_nothing_behind_it",
        ),
        "bytes after close_notify": (
            _TRANSPORT + "test_what_comes_behind_a_close_notify_is_dropped",
            _TLS + "test_bytes_behind_a_close_notify_are_not_requests",
        ),
    },
    "F10": {
        "every API as nobody": (_TABLE + "test_without_a_right_nothing_reaches_the_handler",),
        "each single right": (_TABLE + "test_each_single_right_lets_pass_what_it_is_for",),
        "DENY beside ALLOW": (_TABLE + "test_a_deny_beside_all_rights_takes_away_what_it_is_for_alone",),
        "by ids": (
            "access/test_handlers.py::test_by_id_an_unknown_one_is_said_to_be_unknown_first",
            "access/test_parts.py::test_metadata_by_name_has_no_id_of_what_is_refused_and_by_id_no_name",
            "access/test_parts.py::test_topics_are_deleted_by_name_and_by_id_as_they_may_be_seen",
        ),
        "after the topic was made anew": (
            "access/test_handlers.py::test_a_topic_made_anew_under_a_readable_name_is_not_the_one_of_the_session",
            _ACCESS + "test_rights_are_those_of_the_name_when_a_topic_is_made_anew",
        ),
        "a remembered heartbeat": (
            _ACCESS + "test_a_heartbeat_behind_the_removal_of_its_acl_is_refused",
            _ACCESS + "test_a_commit_behind_the_removal_of_its_acl_is_refused",
        ),
        "codes and order tell nothing": (
            "access/test_parts.py::test_a_topic_that_is_there_and_one_that_is_not_are_refused_alike",
        ),
        "auto-creation tells nothing": (_ACCESS + "test_no_topic_is_made_for_a_client_that_may_not_make_it",),
    },
    "F11": {
        "settings": (_SECRETS + "test_a_secret_is_in_no_text_of_the_settings",),
        "logs, pages, answers, files": (_SECRETS + "test_no_secret_is_shown_whatever_is_done_with_it",),
        "[hidden]": (_SECRETS + "test_what_is_shown_for_a_secret_is_kafkas_word",),
    },
    "F12": {
        "passwords": (
            _SECRETS + "test_no_secret_is_shown_whatever_is_done_with_it",
            _AT_RUN_TIME + "test_what_was_set_is_kept_and_its_secrets_are_not_shown",
        ),
        "unknown names": (_RIGHTS + "test_settings_of_the_authorizer_are_shown_without_their_values",),
    },
    "F13": {
        "0600, ACLs": (
            _SEALED + "test_the_file_is_for_its_owner_alone",
            _SEALED + "test_one_that_others_may_use_is_refused",
            _SEALED + "test_one_that_another_user_has_is_refused",
            _SEALED + "test_one_that_others_may_replace_is_refused",
        ),
        "0600, users of SCRAM": (
            _USERS + "test_only_its_owner_can_read_the_file_at_any_time",
            _USERS + "test_a_file_of_which_others_have_any_use_is_refused",
        ),
        "0600, secrets set at run time": (
            "security/test_kept_secrets.py::test_secrets_that_others_may_use_are_refused",
            _AT_RUN_TIME + "test_what_was_set_is_kept_and_its_secrets_are_not_shown",
        ),
        "a torn file": (
            _SEALED + "test_a_torn_file_is_refused_wherever_it_is_torn",
            _USERS + "test_a_file_that_is_torn_anywhere_is_refused",
            _RIGHTS + "test_acls_that_cannot_be_believed_keep_the_daemon_from_starting",
        ),
        "an authorizer without its file": (
            _SEALED + "test_a_file_that_is_gone_is_refused_until_its_mark_is_removed",
            _RIGHTS + "test_without_the_file_of_the_acls_that_were_there_the_daemon_does_not_start",
        ),
        "a SASL listener without mechanisms": (
            "test_prefixed_settings.py::test_what_does_not_fit_is_one_sentence_and_no_start",
        ),
    },
    "F14": {
        "no descriptors, no spin": (
            "server/test_descriptors.py::test_a_flood_leaves_the_log_its_descriptors_and_ends_with_it",
            "server/test_acceptor.py::test_a_timer_that_finds_no_place_takes_none",
        ),
        "failures are counted, few are logged": (
            "server/test_strangers.py::test_failures_are_counted_and_the_first_and_each_thousandth_are_logged",
        ),
    },
}
