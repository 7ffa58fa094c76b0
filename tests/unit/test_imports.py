"""No module of the package imports itself by way of others, not even for types or inside a function."""

from graphlib import TopologicalSorter

import grimp


def test_no_import_leads_back_to_its_module():
    graph = grimp.build_graph("jupyter_gq", cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the modules
