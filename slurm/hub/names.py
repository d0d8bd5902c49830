"""Names that the labs' Python and the hub's both use."""

INSTRUCTOR = "instructor"  # logs in to see the class board, and has no notebook server
MARK = "LABS_HUB_SETTINGS"  # names settings.json: a process with it belongs to that hub
# Relative to the private folder, in which the hub runs: a Unix socket's path may have 107
# characters at most, and below a site's home the whole path can be longer.
PROXY, PROXY_API, BOARD = "proxy.sock", "proxy-api.sock", "../board/board.sock"
BOARD_USER = "labs-board"  # a system user, who reads the class folder and nothing else
