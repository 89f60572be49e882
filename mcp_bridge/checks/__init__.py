"""
System checks of the setting MCP_BRIDGE, of tools and what else is marked, and of addresses.

An error is a fault of the site's own code or settings. A fault outside them is a warning, which
stops no command.

    E001  an unknown key in MCP_BRIDGE        E002  a value of a wrong type in MCP_BRIDGE
    E003  a BACKEND that cannot be used       E004  a server that is no RpcServer
    E005  an illegal tool name                E006  a marked function that cannot be a tool
    E007  two tools with one name             E008  a class or function that cannot be imported
    E010  a module that cannot be imported    E011  a source whose tools cannot be read
    E020  a class that is no throttle         E021  a mark's rate that is not set

    E022  no host that a request may name     E023  a header that no request has
    E024  tables that are missing             E025  a cache that cannot be written
    E026  nobody can authenticate

    W001  a hint beside a schema by hand      W002  a tool without a description
    W003  combinators at a schema's root      W004  a $ref that leads nowhere, or out
    W005  a schema whose root is no object    W006  a name that strict clients refuse
    W007  read-only and destructive at once   W008  a default that breaks its own schema
    W009  a schema that is too deep           W010  a schema that is too large
    W011  a permission that no model declares W012  a source without a marked procedure
    W013  SQLite without a lock for writing   W014  a list of types, or null in an enum
    W015  SQLite that waits for the disk      W016  a tool that keeps SQLite locked
    W017  an installed function that is no tool
    W018  a source that waits for the database
    W019  a tool that waits for the database  W020  a rate that belongs to nothing
    W021  rates of tools that nothing keeps   W022  counting in a Redis that may hang
    W024  a caller who may have all calls
    W025  users without permissions, for which tools ask
    W026  an installed module that fails      W027  a name that another service has too
    W028  nothing but sessions                W029  no valid token
    W030  an endpoint without an address      W031  an address that is another view's
    W032  CORS for origins that may not call
    W033  conditions of marks that /rpc does not keep
    W034  a mark on what is not registered    W035  a Context that callers of /rpc write
    W036  marked methods of an unmarked class W037  what no schema describes
    W038  an endpoint below i18n_patterns()   W039  marks that no source reads
    W095  a toolset that names no tool        W096  no tool is served
    W097  connections that nothing uses again W098  rates that each worker counts

    I003  callers who have a proxy's address  I004  coroutines in a view of threads

    E070  a view that cannot be a tool        E071  a URLconf that cannot be read

    W070  an option that names no view        W071  credentials that a pattern leaves out
    W072  a view without a serializer         W074  an @extend_schema that does nothing
    W076  what can be no candidate            W078  views that render only HTML
    W079  an installed view that is no tool

    W090  a candidate on, and gone            W091  a candidate under a name that is taken
    W092  a candidate on, and no tool now     W094  unread settings of candidates

Of mcp_bridge.sources.ninja:

    E080  an operation that cannot be a tool
    W081  a name that no operation has        W082  credentials that a pattern leaves out
    W083  an installed operation that is none

Of mcp_bridge.ext.openapi:

    E060  a package that is missing           E062  a service that cannot be reached

    W060  an operation that is no tool        W061  a pattern that means no operation
    W062  a path that cannot be read          W063  a document that cannot be read
    W064  a certificate file that cannot be read

Of mcp_bridge.oauth:

    E040  a resource that is not RESOURCE     E041  an issuer that is not listed
    E042  an address of another view          E043  a class that is not this app's
    E044  an address without TLS

    W040  tokens that open nothing            W041  a login page that is not there
    W042  registration for everybody          W043  a proxy that Django does not know of
    W044  tokens in the log

Of mcp_bridge.ext.grpc:

    W050  methods without descriptions        W051  a pattern of no method
    W052  answers without an output schema    W053  a descriptor set that is not read
    W054  a marked method that cannot be a tool
"""
