/** The panels of the dashboard, by their rows: what each shows, what is normal, and where the run-book says more. */

/** A panel. In its queries, `@` selects the chosen replicas of the chosen environment, `#` all that this environment has. */
export interface Panel {
  readonly title: string
  readonly description: string
  /** The anchor of the run-book. */
  readonly runbook: string
  /** Grafana's name of the unit; `short`, a plain number, without it. */
  readonly unit?: string
  /** The largest value of the axis. */
  readonly max?: number
  /** Of 24 columns; 8 without it. */
  readonly width?: number
  /** `timeseries` without it. */
  readonly type?: 'table'
  /** In PromQL, by the legend of what it returns. */
  readonly queries: Readonly<Record<string, string>>
}

export const rows: Readonly<Record<string, readonly Panel[]>> = {
  Now: [
    {
      title: 'Alerts that fire',
      description:
        'Which alerts fire, by replica or port. Normal: none. The run-book says what to do for each.',
      runbook: 'alerts',
      queries: {
        '{{alertname}} {{instance}}': 'sum by (alertname, instance) (ALERTS{alertstate="firing", #})'
      }
    },
    {
      title: 'Replicas',
      description:
        'Replicas that respond, and those that `.env` or the Deployment wants. Normal: both lines are one. Fewer: look for containers that ended.',
      runbook: 'plantstorereplicamissing',
      queries: { up: 'plant_store:replicas_up{#}', wanted: 'plant_store:replicas_expected{#}' }
    },
    {
      title: 'Published ports that respond',
      description:
        '1 while there are responses from the published port, asked from the machine itself. Normal: 1. At 0 no client is served, whatever the containers say.',
      runbook: 'plantstoreportdead',
      max: 1,
      queries: { '{{instance}}': 'plant_store_probe_success{#}' }
    }
  ],
  Clients: [
    {
      title: 'Creates a second',
      description:
        "Responses to creates by failure number; 0 is a success. Normal: nearly all are 0; 4xx are clients' own. With 500 or 503, look at the failures by name below.",
      runbook: 'plantstoreerrorbudgetfast',
      unit: 'reqps',
      queries: {
        '{{failure}}':
          'sum by (failure) (rate(plant_store_http_request_duration_seconds_count{@, interface="true"}[$__rate_interval]))'
      }
    },
    {
      title: 'Duration of successful creates',
      description:
        "From the request's header to the end of its response. Normal: p99 of some ten milliseconds. Beyond a second the budget burns: compare the duration of an attempt.",
      runbook: 'plantstorelatencybudgetfast',
      unit: 's',
      queries: {
        p50: 'histogram_quantile(0.5, sum by (le) (rate(plant_store_http_request_duration_seconds_bucket{@, interface="true", failure="0"}[$__rate_interval])))',
        p95: 'histogram_quantile(0.95, sum by (le) (rate(plant_store_http_request_duration_seconds_bucket{@, interface="true", failure="0"}[$__rate_interval])))',
        p99: 'histogram_quantile(0.99, sum by (le) (rate(plant_store_http_request_duration_seconds_bucket{@, interface="true", failure="0"}[$__rate_interval])))'
      }
    },
    {
      title: 'Creates that fail with 500 or 503',
      description:
        'Share of all creates; PlantStoreErrorBudgetFast and PlantStoreErrorBudgetSlow watch it. Normal: below 0.1 %. Above: look at the failures by name.',
      runbook: 'plantstoreerrorbudgetfast',
      unit: 'percentunit',
      queries: {
        failing:
          'sum(rate(plant_store_http_request_duration_seconds_count{@, interface="true", failure=~"500|503"}[$__rate_interval])) / sum(rate(plant_store_http_request_duration_seconds_count{@, interface="true"}[$__rate_interval]))'
      }
    },
    {
      title: 'Failures by name',
      description:
        "Every failure response, with or without a route. Normal: a few of clients' own. The run-book says what each name means.",
      runbook: 'errors',
      unit: 'reqps',
      queries: {
        '{{name}}': 'sum by (name) (rate(plant_store_http_failures_total{@}[$__rate_interval])) > 0'
      }
    },
    {
      title: 'Plants created and replayed',
      description:
        'Creates that were stored, and repeats of an Idempotency-Key that got the stored outcome. Normal: few replays. Many: clients repeat because they do not get responses.',
      runbook: 'plantstoreconnectionslost',
      unit: 'ops',
      queries: { '{{outcome}}': 'sum by (outcome) (rate(plant_store_plants_total{@}[$__rate_interval]))' }
    },
    {
      title: 'Requests in flight and connections',
      description:
        "Requests without a complete response, clients' connections, and those whose reading is paused. Normal: as many requests as creates a second times their duration. Growth with the same load: something is slow.",
      runbook: 'overload',
      queries: {
        requests: 'sum(plant_store_http_requests_in_flight{@})',
        connections: 'sum(plant_store_http_connections{@})',
        'held connections': 'sum(plant_store_http_connections_held{@})'
      }
    },
    {
      title: 'Failures by caller',
      description:
        'Whose requests fail, by the name of the token; ClientLeft: it waited no longer. Normal: none for long. Tell the client its failure, or find its lines in the log.',
      runbook: 'logs',
      unit: 'reqps',
      width: 24,
      queries: {
        '{{caller}} {{result}}':
          'sum by (caller, result) (rate(plant_store_http_requests_total{@, result!="Success"}[$__rate_interval])) > 0'
      }
    }
  ],
  'Group commit': [
    {
      title: 'Batches a second',
      description:
        'Attempts to commit a batch, by how they ended. Normal: all are `written`. `database` and `unknown` are repeated: look at the database.',
      runbook: 'plantstorerepeating',
      unit: 'ops',
      queries: {
        '{{outcome}}':
          'sum by (outcome) (rate(plant_store_batch_duration_seconds_count{@}[$__rate_interval]))'
      }
    },
    {
      title: 'Duration of an attempt',
      description:
        'Time of one transaction with its commit: this is what the database takes. Normal: milliseconds. Slow: look at its disk, locks, standbys and checkpoints.',
      runbook: 'plantstorelatencybudgetfast',
      unit: 's',
      queries: {
        p50: 'histogram_quantile(0.5, sum by (le) (rate(plant_store_batch_duration_seconds_bucket{@, outcome="written"}[$__rate_interval])))',
        p99: 'histogram_quantile(0.99, sum by (le) (rate(plant_store_batch_duration_seconds_bucket{@, outcome="written"}[$__rate_interval])))'
      }
    },
    {
      title: 'Plants in a batch',
      description:
        'How many plants share a commit. Normal: it grows with the load, up to WRITE_BATCH_ROWS. Full batches and busy lanes: raise one of both settings.',
      runbook: 'plantstorequeuefilling',
      queries: {
        mean: 'sum(rate(plant_store_batch_rows_sum{@}[$__rate_interval])) / sum(rate(plant_store_batch_rows_count{@}[$__rate_interval]))',
        p99: 'histogram_quantile(0.99, sum by (le) (rate(plant_store_batch_rows_bucket{@}[$__rate_interval])))'
      }
    },
    {
      title: 'Queue',
      description:
        'Plants that wait, of what WRITE_QUEUE_ROWS and WRITE_QUEUE_BYTES allow. Normal: a few percent. Beyond 40 % creates come faster than they are committed.',
      runbook: 'plantstorequeuefilling',
      unit: 'percentunit',
      queries: {
        'rows {{instance}}': 'plant_store_queue_rows{@} / plant_store_queue_rows_limit',
        'bytes {{instance}}': 'plant_store_queue_bytes{@} / plant_store_queue_bytes_limit'
      }
    },
    {
      title: 'Lanes busy',
      description:
        'Transactions in progress, of WRITE_LANES. Normal: rarely all. All for long: the database is slow, or it can take more lanes.',
      runbook: 'plantstorequeuefilling',
      unit: 'percentunit',
      queries: { '{{instance}}': 'plant_store_lanes_busy{@} / plant_store_lanes_limit' }
    },
    {
      title: 'Database away, lacking resources, reporting errors',
      description:
        '1 while creates are refused because the database is away, or while it lacks resources; its errors by SQLSTATE. Normal: 0, and no errors. The run-book has a line for each SQLSTATE.',
      runbook: 'plantstoredatabaseaway',
      queries: {
        '{{instance}}': 'plant_store_database_away{@}',
        '{{instance}} lacks resources': 'plant_store_database_exhausted{@}',
        '{{sqlstate}} per second':
          'sum by (sqlstate) (rate(plant_store_database_errors_total{@}[$__rate_interval])) > 0'
      }
    }
  ],
  'Database connections': [
    {
      title: 'Connections',
      description:
        "The service's sessions by state; busy ones are being opened or run a statement. Normal: as many as lanes and look-ups need. None: the database is away.",
      runbook: 'plantstoreconnectionslost',
      queries: { '{{state}}': 'sum by (state) (plant_store_pool_connections{@})' }
    },
    {
      title: 'Statements that wait for a connection',
      description:
        'Statements without a session to run on. Normal: 0. More for long: sessions hang or cannot be opened.',
      runbook: 'plantstoreconnectionslost',
      queries: { '{{instance}}': 'plant_store_pool_waiting{@}' }
    },
    {
      title: 'Replacements of all connections',
      description:
        'How often all sessions were replaced after one was lost. Normal: 0, and 1 at a failover or a restart of PostgreSQL. Often: look for a time-out that ends them.',
      runbook: 'plantstoreconnectionslost',
      queries: { '{{instance}}': 'increase(plant_store_pool_resets_total{@}[$__rate_interval])' }
    }
  ],
  'Balancer, machine and backup': [
    {
      title: 'Requests that wait in the balancer',
      description:
        'Requests for which no replica has room (SERVER_MAXCONN). Normal: 0. Waiting for long: the replicas are slow, or too few.',
      runbook: 'plantstorebalancerqueue',
      queries: { '{{instance}}': 'haproxy_backend_current_queue{#, proxy="api"}' }
    },
    {
      title: 'Connections of the balancer',
      description:
        "Clients' connections to the balancer, of its maxconn. Normal: below half. At the limit new clients hang.",
      runbook: 'plantstorebalancerconnectionsrunningout',
      unit: 'percentunit',
      max: 1,
      queries: { '{{instance}}': 'haproxy_process_current_connections{#} / haproxy_process_max_connections' }
    },
    {
      title: "Database's disk in use",
      description:
        "Of the file system that has the database's files. Normal: below 85 %, growing by what is stored. Above: see what keeps WAL, then enlarge it.",
      runbook: 'plantstoredatabasediskfilling',
      unit: 'percentunit',
      max: 1,
      queries: {
        '{{instance}}':
          '1 - node_filesystem_avail_bytes{#, mountpoint=~"/var/lib/postgresql.*"} / node_filesystem_size_bytes'
      }
    },
    {
      title: 'Disk and CPU: time in which work waits',
      description:
        'Share of the time in which every task of the machine waits for a disk, or some wait for a processor. Normal: a few percent. A disk above 20 % explains slow batches.',
      runbook: 'plantstorelatencybudgetfast',
      unit: 'percentunit',
      max: 1,
      queries: {
        'disk: all waits': 'rate(node_pressure_io_stalled_seconds_total{#}[$__rate_interval])',
        'CPU: some waits': 'rate(node_pressure_cpu_waiting_seconds_total{#}[$__rate_interval])'
      }
    },
    {
      title: 'Sessions of the database',
      description:
        'Sessions of all clients of the database by state. Normal: idle, a few active. `idle in transaction` for long holds locks.',
      runbook: 'plantstorelatencybudgetfast',
      queries: { '{{state}}': 'sum by (state) (pg_stat_activity_count{#, datname="plants"})' }
    },
    {
      title: 'WAL that slots keep',
      description:
        "WAL that has not been received through a replication slot; the backup's is called backup. Normal: below 64 MB. It grows while the receiver is away, up to max_slot_wal_keep_size.",
      runbook: 'plantstorebackupslotlagging',
      unit: 'bytes',
      queries: { '{{slot_name}}': 'pg_replication_slots_pg_wal_lsn_diff{#}' }
    },
    {
      title: 'Age of the last proved backup',
      description:
        'Since the backup that was last restored on trial. Normal: below 26 hours. Older: read the log of the nightly backup.',
      runbook: 'plantstorebackupold',
      unit: 's',
      queries: { age: 'time() - plant_store_backup_time_seconds{#}' }
    },
    {
      title: 'Time until the certificate expires',
      description: 'Of the balancer with TLS. Normal: more than three weeks. Less: import a new certificate.',
      runbook: 'plantstorecertificateexpiring',
      unit: 's',
      queries: { certificate: 'plant_store_certificate_expiry_time_seconds{#} - time()' }
    },
    {
      title: 'WAL that standbys have not replayed',
      description:
        'Where there are standbys with Patroni: how much each has to replay. Normal: below some MB. Much: a failover takes longer.',
      runbook: 'plantstorereplicationlag',
      unit: 'bytes',
      queries: {
        '{{name}}':
          'max by (scope) (patroni_xlog_location{#}) - on (scope) group_right () (patroni_xlog_replayed_location{#} > 0)'
      }
    }
  ],
  Process: [
    {
      title: 'Event loop lag, p99',
      description:
        'The slowest turn of the event loop in a hundred since the last scrape; the timer that measures it adds 10 ms. Normal: 10 to 30 ms. Beyond 100 ms the process has too much to compute, or is throttled.',
      runbook: 'plantstoreeventloopslow',
      unit: 's',
      queries: { '{{instance}}': 'nodejs_eventloop_lag_p99_seconds{@}' }
    },
    {
      title: 'CPU',
      description:
        'Cores that the process uses. Normal: below one. At the limit of the container: add replicas.',
      runbook: 'plantstoreeventloopslow',
      queries: { '{{instance}}': 'rate(process_cpu_seconds_total{@}[$__rate_interval])' }
    },
    {
      title: 'Memory',
      description:
        "Memory of the process, and of its JavaScript heap. Normal: level under level load. Near the container's limit: lower the bounds that Sizing names.",
      runbook: 'running-sizing',
      unit: 'bytes',
      queries: {
        'resident {{instance}}': 'process_resident_memory_bytes{@}',
        'heap {{instance}}': 'nodejs_heap_size_used_bytes{@}'
      }
    },
    {
      title: 'Garbage collection',
      description:
        'Share of the time in which memory is tidied up. Normal: below 5 %. More: the heap is nearly full.',
      runbook: 'running-sizing',
      unit: 'percentunit',
      queries: {
        '{{kind}} {{instance}}':
          'sum by (instance, kind) (rate(nodejs_gc_duration_seconds_sum{@}[$__rate_interval]))'
      }
    },
    {
      title: 'Open files',
      description:
        'Open files, of what the system allows. Normal: below half. Each connection is one: look for a client that opens one for each request.',
      runbook: 'plantstorefilesrunningout',
      unit: 'percentunit',
      queries: { '{{instance}}': 'process_open_fds{@} / process_max_fds' }
    },
    {
      title: 'What runs',
      description:
        'Version of the service and of Node in each replica. Normal: one version; two during an update. Otherwise repeat the update.',
      runbook: 'plantstorerestarting',
      type: 'table',
      queries: { '': 'plant_store_build_info{@}' }
    }
  ],
  Bounds: [
    {
      title: 'Expected wait',
      description:
        'How long a new plant would wait for its commit. Normal: milliseconds. Beyond half of WRITE_DEADLINE_MS creates are refused.',
      runbook: 'plantstoreshedding',
      unit: 's',
      queries: { '{{instance}}': 'plant_store_queue_expected_seconds{@}' }
    },
    {
      title: 'Connections, of MAX_CONNECTIONS',
      description:
        "Clients' connections to a replica, of MAX_CONNECTIONS. Normal: below half. At the limit idle ones make room.",
      runbook: 'plantstoreconnectionsrunningout',
      unit: 'percentunit',
      queries: { '{{instance}}': 'plant_store_http_connections{@} / plant_store_http_connections_limit' }
    },
    {
      title: 'Bodies that arrive, of BODY_MEMORY_BYTES',
      description:
        'Memory for bodies that arrive, of BODY_MEMORY_BYTES. Normal: near 0. Much: clients send large bodies, or send them slowly.',
      runbook: 'overload',
      unit: 'percentunit',
      queries: { '{{instance}}': 'plant_store_http_body_bytes{@} / plant_store_http_body_bytes_limit' }
    },
    {
      title: 'Connections closed without a response',
      description:
        'Connections that ended without a response: dropped or evicted beyond MAX_CONNECTIONS. Normal: none. Many: a client opens too many.',
      runbook: 'plantstoreconnectionsrunningout',
      unit: 'cps',
      queries: {
        'dropped {{instance}}': 'rate(plant_store_http_connections_dropped_total{@}[$__rate_interval])',
        'evicted {{token}} {{instance}}':
          'rate(plant_store_http_connections_evicted_total{@}[$__rate_interval])'
      }
    },
    {
      title: 'Secret files broken, log lines lost',
      description:
        "1 while a file of tokens or with the database's URL cannot be used, and lines of the log that were lost. Normal: 0. The log names the fault of a file.",
      runbook: 'plantstoretokensfilebroken',
      queries: {
        '{{instance}} tokens': 'plant_store_tokens_file_error{@}',
        '{{instance}} database URL': 'plant_store_database_url_file_error{@}',
        '{{instance}} lost log lines': 'rate(plant_store_log_lines_lost_total{@}[$__rate_interval])'
      }
    }
  ]
}
