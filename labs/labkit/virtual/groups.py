class Groups:
    pass
