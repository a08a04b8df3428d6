-- The tables of a rocpd database that are read, each with the suffix of its process; columns as rocprofv3 names them.
CREATE TABLE rocpd_metadata{suffix} (
    id INTEGER PRIMARY KEY,
    tag TEXT NOT NULL,
    value TEXT NOT NULL
);
CREATE TABLE rocpd_string{suffix} (
    id INTEGER PRIMARY KEY,
    string TEXT NOT NULL
);
CREATE TABLE rocpd_info_node{suffix} (
    id INTEGER PRIMARY KEY,
    machine_id TEXT,
    system_name TEXT,
    hostname TEXT
);
CREATE TABLE rocpd_info_process{suffix} (
    id INTEGER PRIMARY KEY,
    nid INTEGER,
    ppid INTEGER,
    pid INTEGER,
    init BIGINT,
    fini BIGINT,
    command TEXT,
    environment TEXT DEFAULT '{}',
    extdata TEXT DEFAULT '{}'
);
CREATE TABLE rocpd_info_thread{suffix} (
    id INTEGER PRIMARY KEY,
    nid INTEGER,
    pid INTEGER,
    tid INTEGER,
    name TEXT
);
CREATE TABLE rocpd_info_agent{suffix} (
    id INTEGER PRIMARY KEY,
    nid INTEGER,
    pid INTEGER,
    type TEXT,
    absolute_index INTEGER,
    logical_index INTEGER,
    type_index INTEGER,
    name TEXT,
    product_name TEXT,
    extdata TEXT DEFAULT '{}'
);
CREATE TABLE rocpd_info_kernel_symbol{suffix} (
    id INTEGER PRIMARY KEY,
    nid INTEGER,
    pid INTEGER,
    kernel_name TEXT,
    display_name TEXT,
    arch_vgpr_count INTEGER
);
CREATE TABLE rocpd_info_pmc{suffix} (
    id INTEGER PRIMARY KEY,
    name TEXT,
    symbol TEXT
);
CREATE TABLE rocpd_track{suffix} (
    id INTEGER PRIMARY KEY,
    nid INTEGER,
    pid INTEGER,
    tid INTEGER,
    name_id INTEGER
);
CREATE TABLE rocpd_event{suffix} (
    id INTEGER PRIMARY KEY,
    category_id INTEGER,
    stack_id INTEGER,
    parent_stack_id INTEGER,
    correlation_id INTEGER,
    extdata TEXT DEFAULT '{}'
);
CREATE TABLE rocpd_region{suffix} (
    id INTEGER PRIMARY KEY,
    nid INTEGER,
    pid INTEGER,
    tid INTEGER,
    start BIGINT,
    "end" BIGINT,
    name_id INTEGER,
    event_id INTEGER
);
CREATE TABLE rocpd_sample{suffix} (
    id INTEGER PRIMARY KEY,
    track_id INTEGER,
    timestamp BIGINT,
    event_id INTEGER
);
CREATE TABLE rocpd_kernel_dispatch{suffix} (
    id INTEGER PRIMARY KEY,
    nid INTEGER,
    pid INTEGER,
    tid INTEGER,
    agent_id INTEGER,
    kernel_id INTEGER,
    dispatch_id INTEGER,
    queue_id INTEGER,
    stream_id INTEGER,
    start BIGINT,
    "end" BIGINT,
    private_segment_size INTEGER,
    group_segment_size INTEGER,
    workgroup_size_x INTEGER,
    workgroup_size_y INTEGER,
    workgroup_size_z INTEGER,
    grid_size_x INTEGER,
    grid_size_y INTEGER,
    grid_size_z INTEGER,
    graph_exec_id INTEGER NOT NULL DEFAULT 0,
    graph_node_id INTEGER NOT NULL DEFAULT 0,
    event_id INTEGER
);
CREATE TABLE rocpd_memory_copy{suffix} (
    id INTEGER PRIMARY KEY,
    nid INTEGER,
    pid INTEGER,
    tid INTEGER,
    start BIGINT,
    "end" BIGINT,
    name_id INTEGER,
    dst_agent_id INTEGER,
    src_agent_id INTEGER,
    size INTEGER,
    queue_id INTEGER,
    stream_id INTEGER,
    graph_exec_id INTEGER NOT NULL DEFAULT 0,
    graph_node_id INTEGER NOT NULL DEFAULT 0,
    event_id INTEGER
);
CREATE TABLE rocpd_memory_allocate{suffix} (
    id INTEGER PRIMARY KEY,
    nid INTEGER,
    pid INTEGER,
    tid INTEGER,
    agent_id INTEGER,
    type TEXT,
    level TEXT,
    start BIGINT,
    "end" BIGINT,
    address INTEGER,
    size INTEGER,
    event_id INTEGER
);
CREATE TABLE rocpd_pmc_event{suffix} (
    id INTEGER PRIMARY KEY,
    event_id INTEGER,
    pmc_id INTEGER,
    value REAL
);
