"""Routes of restores: `clients` order and read them, `ranks` is what rank workers say."""
