class Collectives:
    pass
